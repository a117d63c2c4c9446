<?php

declare(strict_types=1);

namespace Howdah\Demo;

use Exception;

/** Why a photo is not taken, in words for the visitor. */
final class RejectedPhoto extends Exception
{
    public static function tooLarge(): self
    {
        return new self('That photo is too large: up to ' . UploadLimit::text() . ' will do.');
    }
}
