<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** A page that says what went wrong. */
final class ErrorPage
{
    private const TITLES = [
        404 => 'Not here',
        405 => 'Not like that',
        500 => 'Our mistake',
    ];

    public static function show(int $status, string $message): void
    {
        if (!headers_sent()) {
            http_response_code($status);
            header('Content-Type: text/html; charset=utf-8');
        }
        $title = self::TITLES[$status];
        Template::show('error', ['status' => $status, 'title' => $title, 'message' => $message]);
    }
}
