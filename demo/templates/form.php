<?php

use function Howdah\Demo\escape;
use Howdah\Demo\EntryForm;
use Howdah\Demo\UploadLimit;

/** @var EntryForm $form */
/** @var string $csrfToken */

/** The attributes that tie a field to its hint and to its error. */
$described = static function (string $field, bool $hint = false) use ($form): string {
    $ids = array_filter([
        $hint ? "$field-hint" : null,
        isset($form->errors[$field]) ? "$field-error" : null,
    ]);
    return ($ids === [] ? '' : ' aria-describedby="' . implode(' ', $ids) . '"')
        . (isset($form->errors[$field]) ? ' aria-invalid="true"' : '');
};
$error = static function (string $field) use ($form): void {
    if (isset($form->errors[$field])) {
        echo '<p class="error" id="', $field, '-error">', escape($form->errors[$field]), '</p>';
    }
};
$labels = [
    'name' => 'Your name',
    'message' => 'Your message',
    'photo' => 'A photo',
    'photo_description' => 'What it shows',
];
$advice = $form->errors['form'] ?? 'Please look at:';
?>
        <section class="card write" aria-labelledby="write-title">
            <h2 id="write-title">Write in the book</h2>
<?php if (!$form->isValid()) { ?>
            <div class="summary" role="alert">
                <p>Not saved yet. <?= escape($advice) ?></p>
                <ul>
<?php foreach (array_intersect_key($labels, $form->errors) as $field => $label) { ?>
                    <li><a href="#<?= $field ?>"><?= escape($label) ?></a></li>
<?php } ?>
                </ul>
            </div>
<?php } ?>
            <form method="post" action="./" enctype="multipart/form-data" novalidate>
                <input type="hidden" name="csrf_token" value="<?= escape($csrfToken) ?>">
                <div class="field">
                    <label for="name"><?= escape($labels['name']) ?></label>
                    <input id="name" name="name" value="<?= escape($form->name) ?>"
                        maxlength="<?= EntryForm::LONGEST_NAME ?>" autocomplete="name"
                        required<?= $described('name') ?>>
                    <?php $error('name') ?>
                </div>
                <div class="field">
                    <label for="message"><?= escape($labels['message']) ?></label>
                    <textarea id="message" name="message" rows="5"
                        maxlength="<?= EntryForm::LONGEST_MESSAGE ?>" required<?=
                            $described('message') ?>><?= "\n", escape($form->message) ?></textarea>
                    <?php $error('message') ?>
                </div>
<?php if (extension_loaded('gd')) { ?>
                <div class="field">
                    <label for="photo"><?= escape($labels['photo']) ?>
                        <span class="optional">if you like</span></label>
                    <input id="photo" name="photo" type="file"
                        accept="image/jpeg,image/png,image/webp,image/gif"
                        data-limit="<?= UploadLimit::bytes() ?>"<?= $described('photo', true) ?>>
                    <p class="hint" id="photo-hint">JPEG, PNG, WebP or GIF, up to
                        <?= escape(UploadLimit::text()) ?>. Where it was taken is not kept.</p>
                    <?php $error('photo') ?>
                    <p class="error" id="photo-too-large" role="alert"
                        hidden>That photo is too large.</p>
                    <img class="preview" id="photo-preview" alt="The photo you chose" hidden>
                </div>
                <div class="field">
                    <label for="photo_description"><?= escape($labels['photo_description']) ?>
                        <span class="optional">in words</span></label>
                    <input id="photo_description" name="photo_description"
                        value="<?= escape($form->photoDescription) ?>"
                        maxlength="<?= EntryForm::LONGEST_DESCRIPTION ?>"<?=
                            $described('photo_description') ?>>
                    <?php $error('photo_description') ?>
                </div>
<?php } ?>
                <button type="submit">Sign the book</button>
            </form>
        </section>
