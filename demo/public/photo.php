<?php

declare(strict_types=1);

namespace Howdah\Demo;

require __DIR__ . '/../src/bootstrap.php';

/**
 * Sends a photo or its thumbnail: photo.php?id=NUMBER[&size=thumbnail]. They are outside the
 * document root.
 */
function answer(): void
{
    $id = filter_var($_GET['id'] ?? null, FILTER_VALIDATE_INT, ['options' => ['min_range' => 1]]);
    $size = PhotoSize::tryFrom(is_string($_GET['size'] ?? 'full') ? $_GET['size'] ?? 'full' : '');
    $file = $id === false || $size === null ? null : State::open()->photo($id, $size);
    if ($file === null || !is_file($file)) {
        ErrorPage::show(404, 'There is no such photo.');
        return;
    }
    // A photo never changes under its number, so a browser that has it need not ask again.
    $etag = sprintf('"%d-%s-%x"', $id, $size->value, filemtime($file));
    header('Content-Type: image/jpeg');
    header('Cache-Control: public, max-age=31536000, immutable');
    header('ETag: ' . $etag);
    $known = explode(',', $_SERVER['HTTP_IF_NONE_MATCH'] ?? '');
    if (in_array($etag, array_map('trim', $known), true)) {
        http_response_code(304);
        return;
    }
    header('Content-Length: ' . filesize($file));
    if ($_SERVER['REQUEST_METHOD'] !== 'HEAD') {
        readfile($file);
    }
}

answer();
