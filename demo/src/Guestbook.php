<?php

declare(strict_types=1);

namespace Howdah\Demo;

use PDO;

/** The entries, newest first. */
final class Guestbook
{
    private readonly PDO $database;

    public function __construct(private readonly State $state)
    {
        $this->database = $state->database();
    }

    /** Adds an entry with its photo, or neither. Returns the entry's number. */
    public function add(Entry $entry, ?Photo $photo): int
    {
        $files = []; // Made before the database is locked: scaling takes longer than writing.
        foreach ($photo === null ? [] : PhotoSize::cases() as $size) {
            $files[] = [$size, $photo->jpeg($size)];
        }
        $this->database->beginTransaction();
        try {
            $id = $this->insert($entry, $photo?->dimensions(PhotoSize::Thumbnail));
            foreach ($files as [$size, $bytes]) {
                if (file_put_contents($this->state->photo($id, $size), $bytes) !== strlen($bytes)) {
                    throw new \RuntimeException('cannot write ' . $this->state->photo($id, $size));
                }
            }
            $this->database->commit();
        } catch (\Throwable $error) {
            $this->database->rollBack();
            throw $error;
        }
        return $id;
    }

    public function count(): int
    {
        return (int) $this->database->query('SELECT count(*) FROM entry')->fetchColumn();
    }

    /** @return list<Entry> */
    public function entries(int $offset, int $limit): array
    {
        $statement = $this->database->prepare(
            'SELECT * FROM entry ORDER BY id DESC LIMIT :limit OFFSET :offset',
        );
        $statement->execute(['limit' => $limit, 'offset' => $offset]);
        return array_map(
            static fn (array $row): Entry => new Entry(
                $row['name'],
                $row['message'],
                $row['written_at'],
                $row['photo_description'],
                $row['id'],
                $row['photo_width'],
                $row['photo_height'],
            ),
            $statement->fetchAll(),
        );
    }

    /** @param array{int, int}|null $thumbnail width and height */
    private function insert(Entry $entry, ?array $thumbnail): int
    {
        $this->database->prepare(
            'INSERT INTO entry
                (name, message, written_at, photo_width, photo_height, photo_description)
             VALUES (:name, :message, :written_at, :width, :height, :description)',
        )->execute([
            'name' => $entry->name,
            'message' => $entry->message,
            'written_at' => $entry->writtenAt,
            'width' => $thumbnail[0] ?? null,
            'height' => $thumbnail[1] ?? null,
            'description' => $entry->photoDescription,
        ]);
        return (int) $this->database->lastInsertId();
    }
}
