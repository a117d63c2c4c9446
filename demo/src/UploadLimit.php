<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** How large a photo may be: our own limit, or PHP's where that is lower. */
final class UploadLimit
{
    private const OWN = 12 << 20;

    public static function bytes(): int
    {
        $limits = [self::OWN, self::setting('upload_max_filesize'), self::setting('post_max_size')];
        return min(array_filter($limits));
    }

    public static function text(): string
    {
        return round(self::bytes() / (1 << 20), 1) . ' MB';
    }

    /** A size of php.ini in bytes; 0 is "no limit". */
    private static function setting(string $name): int
    {
        $text = trim((string) ini_get($name));
        $factor = match (strtoupper(substr($text, -1))) {
            'G' => 1 << 30,
            'M' => 1 << 20,
            'K' => 1 << 10,
            default => 1,
        };
        return (int) $text * $factor;
    }
}
