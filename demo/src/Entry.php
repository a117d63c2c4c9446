<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** One entry of the guest-book, as it is shown. */
final readonly class Entry
{
    public function __construct(
        public string $name,
        public string $message,
        public int $writtenAt,
        public ?string $photoDescription = null,
        public ?int $id = null,
        public ?int $thumbnailWidth = null,
        public ?int $thumbnailHeight = null,
    ) {
    }

    public function hasPhoto(): bool
    {
        return $this->thumbnailWidth !== null;
    }

    public function initial(): string
    {
        return mb_strtoupper(mb_substr($this->name, 0, 1));
    }

    /** One of eight colours, always the same for the same name. */
    public function colour(): int
    {
        return crc32(mb_strtolower($this->name)) % 8;
    }

    public function age(int $now): string
    {
        $seconds = max(0, $now - $this->writtenAt);
        return match (true) {
            $seconds < 60 => 'just now',
            $seconds < 3600 => self::ago(intdiv($seconds, 60), 'minute'),
            $seconds < 86400 => self::ago(intdiv($seconds, 3600), 'hour'),
            $seconds < 7 * 86400 => self::ago(intdiv($seconds, 86400), 'day'),
            default => gmdate('j F Y', $this->writtenAt),
        };
    }

    private static function ago(int $count, string $unit): string
    {
        return $count . ' ' . $unit . ($count === 1 ? '' : 's') . ' ago';
    }
}
