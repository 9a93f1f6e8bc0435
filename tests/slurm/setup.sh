#!/usr/bin/env bash
# A Slurm cluster on one machine for the optional tests: munged, slurmctld and two slurmd, which are two nodes (each believes it
# has all cores), as root on Debian or Ubuntu.
#   tests/slurm/setup.sh        install what is missing, configure, start; repeatable
#   tests/slurm/setup.sh stop   stop the daemons
# It writes /etc/slurm/slurm.conf and nothing of the project. For a throw-away machine or container.
set -euo pipefail

stop() {
    for file in /run/slurmd-*.pid /run/slurmctld.pid /run/munge/munged.pid; do
        if [[ -s "$file" ]]; then kill "$(cat "$file")" 2>/dev/null || true; fi
    done
}

if [[ "${1:-start}" == stop ]]; then stop; exit 0; fi
if [[ $EUID -ne 0 ]]; then echo "needs root (it installs and starts daemons)" >&2; exit 1; fi

if ! command -v slurmctld >/dev/null || ! command -v slurmd >/dev/null || ! command -v munged >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge
fi
up() { [[ "$(timeout 5 sinfo --noheader --partition=both --states=idle,mixed,allocated --format=%D 2>/dev/null | awk '{ nodes += $1 } END { print nodes }')" == 2 ]]; }

if up; then echo "slurm is up"; exit 0; fi

host=$(hostname -s)
second=$host-second
cores=$(nproc)
memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.8)}' /proc/meminfo)
mkdir -p /etc/slurm /var/spool/slurmctld "/var/spool/slurmd-$host" "/var/spool/slurmd-$second" /var/log/slurm /run/munge
chown munge:munge /run/munge 2>/dev/null || true
chown -R slurm:slurm /var/spool/slurmctld /var/log/slurm 2>/dev/null || true
cat > /etc/slurm/slurm.conf <<CONF
ClusterName=harness_test
SlurmctldHost=$host
AuthType=auth/munge
AuthInfo=cred_expire=10
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
SlurmdSpoolDir=/var/spool/slurmd-%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd-%n.log
JobRequeue=1
KillWait=30
MinJobAge=300
SlurmctldParameters=idle_on_node_suspend
PreemptMode=REQUEUE
PreemptType=preempt/partition_prio
NodeName=$host NodeHostname=$host Port=6818 CPUs=$cores RealMemory=$memory State=UNKNOWN
NodeName=$second NodeHostname=$host Port=6819 CPUs=$cores RealMemory=$memory State=UNKNOWN
PartitionName=low Nodes=$host Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=30
PartitionName=high Nodes=$host MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=both Nodes=$host,$second MaxTime=INFINITE State=UP PriorityTier=1
CONF

[[ -s /etc/munge/munge.key ]] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 status=none; }
chown munge:munge /etc/munge/munge.key; chmod 400 /etc/munge/munge.key
if ! munge -n >/dev/null 2>&1; then runuser -u munge -- /usr/sbin/munged; fi
slurmctld
slurmd -N "$host"
slurmd -N "$second"
for _ in $(seq 30); do
    if up; then sinfo; exit 0; fi
    sleep 1
done
sinfo || true
tail -n 20 /var/log/slurm/*.log >&2
exit 1
