<?php

use function Howdah\Demo\escape;
use Howdah\Demo\ServerFacts;

/** @var ServerFacts $facts */

// Every fact: its name, its value ("–" where it is not known), and its meaning.
$tiles = [
    ['PHP', $facts->php, 'through ' . $facts->sapi],
    [
        'Worker',
        (string) $facts->worker,
        $facts->pool === null ? 'process id' : 'in pool ' . $facts->pool,
    ],
    [
        'Requests served',
        $facts->workerRequests === null ? '–' : number_format($facts->workerRequests),
        'by this worker',
    ],
    [
        'opcache',
        $facts->opcache ? 'on' : 'off',
        $facts->opcacheHitRate === null
            ? 'every script is compiled anew'
            : sprintf('%.1f %% hits, %d scripts', $facts->opcacheHitRate, $facts->opcacheScripts),
    ],
    ['Memory', sprintf('%.2f MB', ServerFacts::peakMemory() / (1 << 20)), 'at its peak'],
    ['This page', sprintf('%.1f ms', ServerFacts::elapsed()), 'from request to here'],
];
?>
    <section class="wrap facts" aria-labelledby="facts-title">
        <h2 id="facts-title">Who made this page</h2>
        <dl>
<?php foreach ($tiles as [$label, $value, $meaning]) { ?>
            <div<?= $label === 'opcache' && !$facts->opcache ? ' class="warn"' : '' ?>>
                <dt><?= escape($label) ?></dt>
                <dd><strong><?= escape($value) ?></strong> <span><?= escape($meaning) ?></span></dd>
            </div>
<?php } ?>
        </dl>
<?php if ($facts->software !== '') { ?>
        <p class="software"><?= escape($facts->software) ?></p>
<?php } ?>
    </section>
