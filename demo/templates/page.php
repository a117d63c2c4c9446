<?php

use function Howdah\Demo\escape;
use Howdah\Demo\Template;

/** @var list<Howdah\Demo\Entry> $entries */
/** @var Howdah\Demo\Pagination $pagination */
/** @var Howdah\Demo\EntryForm $form */
/** @var Howdah\Demo\ServerFacts $facts */
/** @var string $csrfToken */
/** @var ?string $flash */

$hint = $form->isValid() ? '' : 'Please check: ';
Template::show('head', ['title' => $hint . 'Guest-book on Howdah']);
$total = $pagination->total === 1 ? '1 entry' : number_format($pagination->total) . ' entries';
?>
<body>
<a class="skip" href="#entries">Skip to the entries</a>
<div class="banner">
    <header class="wrap title">
        <img class="elephant" src="favicon.svg" width="96" height="96" alt="">
        <div>
            <p class="eyebrow">Carried by Howdah</p>
            <h1>Guest-book</h1>
            <p class="lead">Say hello, leave a photo, and see what it took to make this page.</p>
        </div>
    </header>
<?php Template::show('facts', ['facts' => $facts]); ?>
</div>

<main class="wrap">
<?php if ($flash !== null) { ?>
    <p class="flash" role="status"><?= escape($flash) ?></p>
<?php } ?>
    <div class="columns">
<?php Template::show('form', ['form' => $form, 'csrfToken' => $csrfToken]); ?>
        <section class="book" id="entries" aria-labelledby="entries-title" tabindex="-1">
            <div class="book-head">
                <h2 id="entries-title">What others wrote</h2>
                <p class="count"><?= escape($total) ?></p>
            </div>
<?php if ($entries === []) { ?>
            <div class="empty">
                <p class="empty-title">The first page is still blank.</p>
                <p>Nobody has written yet. <a href="#name">Be the first.</a></p>
            </div>
<?php } else { ?>
            <div class="entries">
<?php
    $now = time();
    foreach ($entries as $entry) {
        Template::show('entry', ['entry' => $entry, 'now' => $now]);
    }
?>
            </div>
<?php } ?>
<?php Template::show('pagination', ['pagination' => $pagination]); ?>
        </section>
    </div>
</main>

<footer class="wrap foot">
    <p>A few small PHP files, SQLite and gd, on the PHP of this distribution. Nothing on this page
        comes from elsewhere.</p>
</footer>
</body>
</html>
