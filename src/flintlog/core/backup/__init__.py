"""Full and incremental copies of a log directory, and how to restore them; the same for every dialect.

A backup is a directory of plain files with a list of them in `flintlog-backup.json`. A later backup names the files
that an earlier one holds, compared by content, and copies only the others. A *place* holds numbered backups of one log.

A dialect gives a *picture*: which files, and how much of each, make the log as it is now or was at a position.
Everything else is here: copying a directory that a store writes to, the list, the chain, the checks.

Backups and restored directories are written to `<target>.new`, read back, and get their name last: they are there as a
whole or not at all.
"""

from flintlog.core.backup.copying import Known, fill, known_files
from flintlog.core.backup.listing import BACKUP_FILE, Backup, Copied, read_list, write_list
from flintlog.core.backup.picture import ChangedError, Part, Picture
from flintlog.core.backup.place import Taken, backups_in, check_place, take_backup
from flintlog.core.backup.restoring import (
    Checked,
    check_backup,
    choose,
    plan_restore,
    restore_backup,
    verify_backup,
)

__all__ = [
    "BACKUP_FILE",
    "Backup",
    "ChangedError",
    "Checked",
    "Copied",
    "Known",
    "Part",
    "Picture",
    "Taken",
    "backups_in",
    "check_backup",
    "check_place",
    "choose",
    "fill",
    "known_files",
    "plan_restore",
    "read_list",
    "restore_backup",
    "take_backup",
    "verify_backup",
    "write_list",
]
