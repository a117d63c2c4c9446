<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** The visitor's session: a token that forms must carry, and a message for the next page. */
final class Session
{
    public function __construct()
    {
        session_start([
            'name' => 'guestbook',
            'use_strict_mode' => true,
            'cookie_httponly' => true,
            'cookie_samesite' => 'Lax',
            'cookie_secure' => ($_SERVER['HTTPS'] ?? '') !== '',
        ]);
        $_SESSION['csrf_token'] ??= bin2hex(random_bytes(32));
    }

    public function csrfToken(): string
    {
        return $_SESSION['csrf_token'];
    }

    public function isCsrfToken(mixed $sent): bool
    {
        return is_string($sent) && hash_equals($_SESSION['csrf_token'], $sent);
    }

    public function flash(string $message): void
    {
        $_SESSION['flash'] = $message;
    }

    /** The message, once. */
    public function takeFlash(): ?string
    {
        $message = $_SESSION['flash'] ?? null;
        unset($_SESSION['flash']);
        return $message;
    }
}
