<?php

/** @var Howdah\Demo\Pagination $pagination */

if ($pagination->pages < 2) {
    return;
}
$link = static fn (int $page): string => $page === 1 ? './#entries' : "?page=$page#entries";
?>
            <nav class="pagination" aria-label="Pages of the guest-book">
<?php if ($pagination->page > 1) { ?>
                <a class="step" rel="prev" href="<?= $link($pagination->page - 1) ?>">Newer</a>
<?php } ?>
                <ol>
<?php foreach ($pagination->numbers() as $number) { ?>
<?php if ($number === null) { ?>
                    <li class="gap" aria-hidden="true">…</li>
<?php } else { ?>
                    <li><a href="<?= $link($number) ?>" aria-label="Page <?= $number ?>"<?=
                        $number === $pagination->page ? ' aria-current="page"' : ''
                    ?>><?= $number ?></a></li>
<?php } ?>
<?php } ?>
                </ol>
<?php if ($pagination->page < $pagination->pages) { ?>
                <a class="step" rel="next" href="<?= $link($pagination->page + 1) ?>">Older</a>
<?php } ?>
            </nav>
