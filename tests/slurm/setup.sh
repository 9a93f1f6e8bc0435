#!/usr/bin/env bash
# A Slurm cluster of one machine for the optional tests: munged, slurmctld and slurmd, as root on Debian or Ubuntu.
#   tests/slurm/setup.sh        install what is missing, configure, start; repeatable
#   tests/slurm/setup.sh stop   stop the daemons
# It writes /etc/slurm/slurm.conf and nothing of the project. For a throw-away machine or container.
set -euo pipefail

stop() {
    for daemon in slurmd slurmctld munged; do
        for file in /run/slurmd.pid /run/slurmctld.pid /run/munge/munged.pid; do
            if [[ "$file" == *"/$daemon.pid" && -s "$file" ]]; then kill "$(cat "$file")" 2>/dev/null || true; fi
        done
    done
}

if [[ "${1:-start}" == stop ]]; then stop; exit 0; fi
if [[ $EUID -ne 0 ]]; then echo "needs root (it installs and starts daemons)" >&2; exit 1; fi

if ! command -v slurmctld >/dev/null || ! command -v slurmd >/dev/null || ! command -v munged >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge
fi
if command -v sinfo >/dev/null && timeout 5 sinfo --noheader --format=%T 2>/dev/null | grep -qE 'idle|mixed|allocated'; then
    echo "slurm is up"; exit 0
fi

host=$(hostname -s)
cores=$(nproc)
memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.8)}' /proc/meminfo)
mkdir -p /etc/slurm /var/spool/slurmctld /var/spool/slurmd /var/log/slurm /run/munge
chown munge:munge /run/munge 2>/dev/null || true
chown -R slurm:slurm /var/spool/slurmctld /var/log/slurm 2>/dev/null || true
cat > /etc/slurm/slurm.conf <<CONF
ClusterName=harness_test
SlurmctldHost=$host
AuthType=auth/munge
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
JobRequeue=1
KillWait=30
MinJobAge=300
SlurmctldParameters=idle_on_node_suspend
PreemptMode=REQUEUE
PreemptType=preempt/partition_prio
NodeName=$host CPUs=$cores RealMemory=$memory State=UNKNOWN
PartitionName=low Nodes=$host Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=30
PartitionName=high Nodes=$host MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
CONF

[[ -s /etc/munge/munge.key ]] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 status=none; }
chown munge:munge /etc/munge/munge.key; chmod 400 /etc/munge/munge.key
if ! munge -n >/dev/null 2>&1; then runuser -u munge -- /usr/sbin/munged; fi
slurmctld
slurmd
for _ in $(seq 30); do
    if timeout 5 sinfo --noheader --format=%T 2>/dev/null | grep -qE 'idle|mixed|allocated'; then
        sinfo; exit 0
    fi
    sleep 1
done
sinfo || true
tail -n 20 /var/log/slurm/*.log >&2
exit 1
