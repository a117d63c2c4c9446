<!doctype html>
<html lang="en">
<head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title><?= Howdah\Demo\escape($title) ?></title>
    <meta name="description" content="A guest-book with photos, served by Howdah.">
    <meta name="color-scheme" content="light dark">
    <meta name="theme-color" content="#4a2c6d">
    <link rel="icon" href="favicon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="style.css">
    <script src="form.js" defer></script>
</head>
