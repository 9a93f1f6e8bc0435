"""`once://FOLDER`: configuration files that a process reads once. Reading YAML is a quarter of what a plan of seven compositions costs."""

import functools
import pickle
import re
from pathlib import Path

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf


class FilesReadOnce(ConfigSource):
    """Files of a folder as `file://` gives them."""

    @staticmethod
    def scheme() -> str:
        """What a search path calls it by."""
        return "once"

    def load_config(self, config_path: str) -> ConfigResult:
        """A file and its header, read once as long as nobody writes it. Raises what `OmegaConf.load` raises."""
        file = self._file(config_path)
        package, config = _read(file, file.stat().st_mtime_ns)
        return ConfigResult(self.provider, self.full_path(), pickle.loads(config), {"package": package})

    def available(self) -> bool:
        """Say if the folder is there."""
        return self.is_group("")

    def is_group(self, config_path: str) -> bool:
        """Say if a folder has this path."""
        return Path(self.path, config_path).is_dir()

    def is_config(self, config_path: str) -> bool:
        """Say if a file has this path, which may lack its suffix."""
        return self._file(config_path).is_file()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """The files (without suffix) and groups of a folder, sorted."""
        paths = list(Path(self.path, config_path).iterdir())
        groups = [path.name for path in paths if path.is_dir()] if results_filter != ObjectType.CONFIG else []
        files = [path.stem for path in paths if path.suffix == ".yaml"] if results_filter != ObjectType.GROUP else []
        return sorted({*groups, *files})

    def _file(self, config_path: str) -> Path:
        return Path(self.path, f"{config_path.removesuffix('.yaml')}.yaml")


@functools.cache
def _read(path: Path, _: int) -> tuple[str | None, bytes]:
    """The package that the first line names, and the pickled content, which loads faster than it is copied."""
    with path.open(encoding="utf-8") as file:
        package = re.match(r"\s*#\s*@package\s+(\S+)", file.readline())
        file.seek(0)
        return package[1] if package else None, pickle.dumps(OmegaConf.load(file))
