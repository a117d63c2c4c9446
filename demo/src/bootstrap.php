<?php

declare(strict_types=1);

namespace Howdah\Demo;

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, __NAMESPACE__ . '\\')) {
        require __DIR__ . '/' . substr($class, strlen(__NAMESPACE__) + 1) . '.php';
    }
});

/** Every value that reaches the page goes through this. */
function escape(string|int|float|null $value): string
{
    return htmlspecialchars((string) $value, ENT_QUOTES | ENT_SUBSTITUTE | ENT_HTML5, 'UTF-8');
}

set_exception_handler(static function (\Throwable $error): void {
    error_log((string) $error);
    ErrorPage::show(500, 'Something went wrong on our side. The reason is in the error log.');
});

header("Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; "
    . "img-src 'self' blob:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
header('X-Content-Type-Options: nosniff');
header('Referrer-Policy: same-origin');
