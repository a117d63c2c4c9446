<?php

use function Howdah\Demo\escape;
use Howdah\Demo\Template;

/** @var int $status */
/** @var string $title */
/** @var string $message */

Template::show('head', ['title' => $title]);
?>
<body>
<main class="wrap error-page">
    <img src="favicon.svg" width="96" height="96" alt="">
    <p class="eyebrow"><?= $status ?></p>
    <h1><?= escape($title) ?></h1>
    <p><?= escape($message) ?></p>
    <p><a href="./">Back to the guest-book</a></p>
</main>
</body>
</html>
