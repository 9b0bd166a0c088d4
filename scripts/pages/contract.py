"""The fields of `--json`, verb by verb, in the order they are printed: a contract that scripts rely on.

The fields of `state` are each dialect's own; its `state_schema` names them.

The pages of the verbs show these tables, and the tests compare them with what the verbs print.
"""

from __future__ import annotations

Fields = tuple[tuple[str, str], ...]

FILE_FIELDS: Fields = (
    ("name", "path inside the log directory"),
    ("role", "the dialect's word for it; `leftover` and `foreign` are common to all"),
    ("size", "bytes"),
    ("first", "position of the first entry, or null"),
    ("last", "position of the last entry, or null"),
    ("entries", "number of entries, or null when they were not counted"),
)

FINDING_FIELDS: Fields = (
    ("severity", "`note`, `repairable`, `corrupt` or `unsupported`"),
    ("code", "a stable word for the kind of finding"),
    ("file", "path inside the log directory, or null"),
    ("offset", "byte in that file, or null"),
    ("message", "a sentence"),
    ("expected", "what should stand there, or null"),
    ("found", "what stands there, or null"),
)

INVENTORY_FIELDS: Fields = (
    ("dialect", "the dialect of the directory"),
    ("edition", "`designed`, `shipped`, or null where a dialect has only one"),
    ("path", "the log directory"),
    ("files", "a list of files, see below"),
    ("first", "first position in the log, or null"),
    ("last", "last position in the log, or null"),
    ("facts", "numbers of the dialect's own"),
    ("findings", "a list of findings, see below; `inspect` leaves out what a snapshot covers"),
    ("verdict", "`clean`, `repairable`, `corrupt` or `unsupported`"),
)

ENTRY_FIELDS: Fields = (
    ("dialect", "the dialect of the directory"),
    ("file", "path inside the log directory"),
    ("offset", "where the entry's bytes begin"),
    ("length", "how many there are, header and padding included"),
    ("term", "the Raft term, or null"),
    ("position", "LSN, index or epoch"),
    ("operation", "what the entry does"),
    ("stream", "queue, topic or storage, or null"),
    ("key", "the key as its bytes on disk, or null"),
    ("payload", "the payload, or null; left out with `--no-payload`"),
    ("(name of the dialect)", "an object with the dialect's own fields"),
)

BYTE_FIELDS: Fields = (
    ("file", "path inside the log directory"),
    ("offset", "where the field's bytes begin"),
    ("bytes", "the bytes"),
    ("name", "the field"),
    ("meaning", "what these bytes say"),
)

PLAN_FIELDS: Fields = (
    ("verb", "`repair`, `undo`, `snapshot`, `compact`, `migrate` or `restore`"),
    ("dialect", "the dialect of the directory"),
    ("path", "the log directory"),
    ("steps", "a list of {`action`, `file`, `reason`}"),
    ("lost", "sentences that name acknowledged data the plan gives up"),
    ("refusal", "why there is no plan, or null"),
    ("facts", "numbers of the dialect's own"),
    ("applied", "whether the plan was carried out"),
    ("done", "one sentence that says what was done, or null"),
)

REPAIR_FIELDS: Fields = (
    *PLAN_FIELDS,
    ("rounds", "with --apply: the plans of later rounds that were carried out, each with its `done`"),
    ("further", "with --apply: the plan of a round that was not, because it gives something up; or null"),
    ("findings", "with --apply: what `verify` sees afterwards"),
    ("verdict", "with --apply: its verdict"),
)

BACKUP_FIELDS: Fields = (
    ("backup", "its name in the place: `0001`"),
    ("place", "where the backups are"),
    ("dialect", "the dialect of the log"),
    ("edition", "`designed`, `shipped`, or null where a dialect has only one"),
    ("version", "the version of the format, or null where a dialect has none"),
    ("created", "when, in UTC"),
    ("source", "the log directory"),
    ("inside", "where the files stood in it: `data` in a root, or empty"),
    ("identity", "the name that the log has for itself, or null"),
    ("kind", "`full`, or `incremental` where earlier backups hold some of the files"),
    ("first", "the first position that can be restored, or null"),
    ("last", "the last one, or null"),
    ("files", "a list of {`name`, `size`, `sha256`, `held_by`: the backup with the bytes, or null}"),
    ("copied_bytes", "bytes of the files that this backup holds"),
    ("held_bytes", "bytes of those that earlier ones hold"),
    ("applied", "whether it was made; false with `--dry-run`, and where nothing is new"),
    ("new", "whether the log holds anything that the newest backup does not; if not, this is that backup"),
)

BACKUP_LIST_FIELDS: Fields = (
    ("backup", "its name in the place"),
    ("created", "when, in UTC"),
    ("kind", "`full` or `incremental`"),
    ("dialect", "the dialect of the log"),
    ("first", "the first position that can be restored, or null"),
    ("last", "the last one, or null"),
    ("files", "how many files the log has"),
    ("copied_bytes", "bytes of the files that this backup holds"),
    ("held_bytes", "bytes of those that earlier ones hold"),
    ("problem", "why its list cannot be read, and then all other fields are null; or null"),
    ("source", "the log directory that it was made of"),
)

EXPORT_FIELDS: Fields = (
    ("source", "the log directory"),
    ("target", "the directory of the export"),
    ("dialect", "the dialect of the directory"),
    ("view", "`entries` or `state`"),
    ("format", "`parquet`, `ndjson` or `delta`"),
    ("commit", "the number of this run's commit, or null when nothing was new"),
    ("rows", "how many rows it added; 0 with `--dry-run`"),
    ("bytes", "bytes of its files"),
    ("files", "names of its files in the target"),
    ("position", "everything up to here is exported, or null"),
)

DIFF_FIELDS: Fields = (
    ("dialect", "the dialect of the replicas"),
    ("compared", "`entries`, or `state` where entries cannot be compared"),
    (
        "replicas",
        "a list of {`source`, `last`, `rows` compared, `missing`: what others have, `alone`: what no other has}",
    ),
    ("first", "the position from which on entries are compared, or null"),
    ("last", "the last position that all have; of states the one at which they are compared"),
    ("differing", "how many entries or keys contradict each other"),
    (
        "divergence",
        "the first of them: an object with `position` (mpy6a also `term`; limestone `stream` and `key`), or null",
    ),
    ("verdict", "`equal`, `behind` (one is the beginning of another) or `diverged`"),
    (
        "rows",
        "the first differences, up to `--limit`: where, `differs` (or missing), and the `sources` that have it",
    ),
)

DOCTOR_FIELDS: Fields = (
    ("path", "the directory"),
    ("file_system", "its kind, or null"),
    ("mount", "where it is mounted, or null"),
    ("mount_options", "with commas between them, or null"),
    ("size_bytes", "size of the file system"),
    ("free_bytes", "what is free of it"),
    ("files", "inodes of the file system; 0 where it does not count them"),
    ("free_files", "what is free of them"),
    ("page_bytes", "size of a page of memory"),
    (
        "sync_p50_seconds",
        "half of the writes of 4 KiB with fdatasync took no longer; null when nothing was measured",
    ),
    ("sync_p99_seconds", "99% of them took no longer"),
    ("rename_p50_seconds", "the same of a rename with the fsync of its directory"),
    ("rename_p99_seconds", "99% of them took no longer"),
    ("lock", "whether flock keeps a second writer out, or null"),
    ("python", "its version"),
    ("packages", "an object of versions; null for what is not installed"),
    ("numba_cache", "where compiled code is kept, or null"),
    ("java", "its version, or null"),
    ("advice", "a list of sentences, empty when nothing is bad"),
)

WEB_FIELDS: Fields = (
    ("url", "where the page is"),
    ("directories", "the log directories that are shown"),
)
