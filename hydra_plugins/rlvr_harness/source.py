"""`once://FOLDER`: configuration files that a process reads once. Reading YAML is a quarter of what a plan of seven compositions costs."""

import functools
import pickle
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
        text, config = _read(file, file.stat().st_mtime_ns)
        return ConfigResult(self.provider, self.full_path(), pickle.loads(config), self._get_header_dict(text))

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
        names: list[str] = []
        for path in Path(self.path, config_path).iterdir():
            self._list_add_result(names, str(Path(config_path, path.name)), path.name, results_filter)
        return sorted(set(names))

    def _file(self, config_path: str) -> Path:
        return Path(self.path, self._normalize_file_name(config_path))


@functools.cache
def _read(path: Path, _: int) -> tuple[str, bytes]:
    """The head of a file and its pickled content, which loads faster than it is copied."""
    with path.open(encoding="utf-8") as file:
        head = file.read(512)
        file.seek(0)
        return head, pickle.dumps(OmegaConf.load(file))
