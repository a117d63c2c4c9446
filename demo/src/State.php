<?php

declare(strict_types=1);

namespace Howdah\Demo;

use PDO;
use RuntimeException;

/** The state of the demo: a folder outside the document root with the database and the photos. */
final class State
{
    private const SCHEMA_VERSION = 1;

    private function __construct(private readonly string $folder)
    {
    }

    /**
     * Opens the folder that HOWDAH_DEMO_STATE names, or one of our own in the folder for temporary
     * files.
     */
    public static function open(): self
    {
        $own = sys_get_temp_dir() . '/howdah-demo-' . posix_geteuid();
        $folder = getenv('HOWDAH_DEMO_STATE') ?: $own;
        foreach ([$folder, $folder . '/photos'] as $needed) {
            if (!is_dir($needed) && !@mkdir($needed, 0o700, true) && !is_dir($needed)) {
                throw new RuntimeException("cannot create $needed");
            }
        }
        // Temporary folders are shared: somebody else may have laid out one under this name.
        if (fileowner($folder) !== posix_geteuid() || is_link($folder)) {
            throw new RuntimeException("$folder is not ours");
        }
        return new self($folder);
    }

    public function photo(int $entry, PhotoSize $size): string
    {
        return sprintf('%s/photos/%d-%s.jpg', $this->folder, $entry, $size->value);
    }

    public function database(): PDO
    {
        $database = new PDO('sqlite:' . $this->folder . '/guestbook.sqlite', options: [
            PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
            PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
            PDO::ATTR_TIMEOUT => 5, // Seconds to wait while another worker writes.
        ]);
        if ((int) $database->query('PRAGMA user_version')->fetchColumn() < self::SCHEMA_VERSION) {
            self::create($database);
        }
        return $database;
    }

    private static function create(PDO $database): void
    {
        // With a write-ahead log readers never wait for a writer.
        $database->exec('PRAGMA journal_mode = WAL');
        $database->exec('BEGIN IMMEDIATE');
        $database->exec('CREATE TABLE IF NOT EXISTS entry (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            message TEXT NOT NULL,
            written_at INTEGER NOT NULL,
            photo_width INTEGER,
            photo_height INTEGER,
            photo_description TEXT
        )');
        $database->exec('PRAGMA user_version = ' . self::SCHEMA_VERSION);
        $database->exec('COMMIT');
    }
}
