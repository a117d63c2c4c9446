<?php

declare(strict_types=1);

namespace Howdah\Demo;

require __DIR__ . '/../src/bootstrap.php';

const ENTRIES_PER_PAGE = 8;

/** The guest-book: GET shows a page of it, POST adds an entry. */
function answer(): void
{
    $session = new Session();
    $guestbook = new Guestbook(State::open());
    $form = new EntryForm();
    $status = 200;

    switch ($_SERVER['REQUEST_METHOD']) {
        case 'GET':
        case 'HEAD':
            break;
        case 'POST':
            $form = EntryForm::fromRequest($_POST, $_FILES, $session);
            if ($form->isValid()) {
                $id = $guestbook->add($form->entry(), $form->photo);
                $session->flash('Thank you, ' . $form->name . '! Your entry is in the book.');
                header('Location: ./#entry-' . $id, true, 303);
                return;
            }
            $status = 422;
            break;
        default:
            header('Allow: GET, HEAD, POST');
            ErrorPage::show(405, 'This page can be read (GET) and written to (POST).');
            return;
    }

    $pagination = Pagination::of($guestbook->count(), ENTRIES_PER_PAGE, $_GET['page'] ?? '1');
    if ($pagination === null) {
        ErrorPage::show(404, 'The guest-book has no such page.');
        return;
    }
    http_response_code($status);
    Template::show('page', [
        'entries' => $guestbook->entries($pagination->offset(), ENTRIES_PER_PAGE),
        'pagination' => $pagination,
        'form' => $form,
        'csrfToken' => $session->csrfToken(),
        'flash' => $session->takeFlash(),
        'facts' => ServerFacts::gather(),
    ]);
}

answer();
