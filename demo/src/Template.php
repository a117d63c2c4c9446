<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** PHP files under templates/, each with the values it is given and nothing else. */
final class Template
{
    /** @param array<string, mixed> $values */
    public static function show(string $name, array $values = []): void
    {
        (static function (string $file, array $values): void {
            extract($values, EXTR_SKIP);
            require $file;
        })(dirname(__DIR__) . '/templates/' . $name . '.php', $values);
    }
}
