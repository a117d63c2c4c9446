<?php

use function Howdah\Demo\escape;

/** @var Howdah\Demo\Entry $entry */
/** @var int $now */

$description = $entry->photoDescription ?? 'Photo by ' . $entry->name;
$title = gmdate('j F Y, H:i', $entry->writtenAt) . ' UTC';
?>
                <article class="card entry" id="entry-<?= $entry->id ?>"
                    aria-labelledby="entry-<?= $entry->id ?>-name">
<?php if ($entry->hasPhoto()) { ?>
                    <a class="photo" href="photo.php?id=<?= $entry->id ?>">
                        <img src="photo.php?id=<?= $entry->id ?>&amp;size=thumbnail"
                            loading="lazy" width="<?= $entry->thumbnailWidth ?>"
                            height="<?= $entry->thumbnailHeight ?>"
                            alt="<?= escape($description) ?>">
                    </a>
<?php } ?>
                    <div class="entry-text">
                        <p class="message"><?= nl2br(escape($entry->message), false) ?></p>
                        <footer class="signed">
                            <span class="initial colour-<?= $entry->colour() ?>"
                                aria-hidden="true"><?= escape($entry->initial()) ?></span>
                            <h3 id="entry-<?= $entry->id ?>-name"><?= escape($entry->name) ?></h3>
                            <time datetime="<?= gmdate('Y-m-d\TH:i:s\Z', $entry->writtenAt) ?>"
                                title="<?= $title ?>"><?= escape($entry->age($now)) ?></time>
                        </footer>
                    </div>
                </article>
