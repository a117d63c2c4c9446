<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** The two sizes in which a photo is kept. */
enum PhotoSize: string
{
    case Full = 'full';
    case Thumbnail = 'thumbnail';

    /** No side is longer than this many pixels. */
    public function longestSide(): int
    {
        return match ($this) {
            self::Full => 1600,
            self::Thumbnail => 640,
        };
    }
}
