<?php

// A small application: routes and their controllers around Symfony's HttpKernel.

use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\HttpFoundation\BinaryFileResponse;
use Symfony\Component\HttpFoundation\JsonResponse;
use Symfony\Component\HttpFoundation\RedirectResponse;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\RequestStack;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpFoundation\Session\Session;
use Symfony\Component\HttpFoundation\StreamedResponse;
use Symfony\Component\HttpKernel\Controller\ArgumentResolver;
use Symfony\Component\HttpKernel\Controller\ControllerResolver;
use Symfony\Component\HttpKernel\EventListener\RouterListener;
use Symfony\Component\HttpKernel\Exception\HttpExceptionInterface;
use Symfony\Component\HttpKernel\HttpKernel;
use Symfony\Component\Routing\Generator\UrlGenerator;
use Symfony\Component\Routing\Generator\UrlGeneratorInterface;
use Symfony\Component\Routing\Matcher\UrlMatcher;
use Symfony\Component\Routing\RequestContext;
use Symfony\Component\Routing\Route;
use Symfony\Component\Routing\RouteCollection;

require '/usr/share/php/Symfony/Component/HttpKernel/autoload.php';
require '/usr/share/php/Symfony/Component/Routing/autoload.php';

$request = Request::createFromGlobals();
$context = (new RequestContext())->fromRequest($request);
$routes = new RouteCollection();
$urls = new UrlGenerator($routes, $context);
$picture = dirname(__DIR__) . '/var/picture.png';

$route = function (string $path, callable $controller, array $methods = []) use ($routes) {
    $routes->add($path, new Route($path, ['_controller' => $controller], [], [], '', [], $methods));
};
$hello = fn (string $name) =>
    $urls->generate('/hello/{name}', ['name' => $name], UrlGeneratorInterface::ABSOLUTE_URL);

$route('/', fn () => new Response('home'));
$route('/hello/{name}', fn (Request $request, string $name) => new JsonResponse([
    'name' => $name,
    'base' => $request->getBaseUrl(),
    'path' => $request->getPathInfo(),
    'query' => $request->getQueryString() === null
        ? null
        : http_build_query($request->query->all()),
    'url' => $hello('Babar'),
    'environment' => $_SERVER['APP_ENV'] === getenv('APP_ENV') ? getenv('APP_ENV') : 'two of them',
]));
$route('/old', fn () => new RedirectResponse($hello('Celeste')));
$route('/things/{id}', fn (Request $request, string $id) => new JsonResponse([
    'method' => $request->getMethod(),
    'id' => $id,
    'sent' => json_decode($request->getContent(), true),
]), ['POST', 'PUT', 'PATCH', 'DELETE']);
$route('/who', fn (Request $request) => new Response(
    $request->getUser() === null
        ? $request->headers->get('Authorization')
        : $request->getUser() . ':' . $request->getPassword()
));
$route('/count', function () {
    $session = new Session();
    $session->set('count', $session->get('count', 0) + 1);
    return new Response((string) $session->get('count'));
});
$route('/upload', function (Request $request) use ($picture) {
    $file = $request->files->get('picture');
    $answer = [
        'caption' => $request->request->get('caption'),
        'name' => $file->getClientOriginalName(),
        'size' => $file->getSize(),
        'type' => $file->getClientMimeType(),
    ];
    $file->move(dirname($picture), basename($picture));
    return new JsonResponse($answer);
}, ['POST']);
$route('/download', function (Request $request) use ($picture) {
    $response = new BinaryFileResponse($picture, 200, ['Content-Type' => 'image/png']);
    $response->isNotModified($request);
    return $response;
});
$route('/stream', fn () => new StreamedResponse(function () {
    for ($number = 0; $number < 5; $number++) {
        echo "$number\n";
        flush();
    }
}));

$stack = new RequestStack();
$events = new EventDispatcher();
$events->addSubscriber(new RouterListener(new UrlMatcher($routes, $context), $stack, $context));
$kernel = new HttpKernel($events, new ControllerResolver(), $stack, new ArgumentResolver());
try {
    $response = $kernel->handle($request);
} catch (HttpExceptionInterface $exception) {
    $response = new Response(
        $exception->getMessage(),
        $exception->getStatusCode(),
        $exception->getHeaders(),
    );
}
$response->prepare($request)->send();
$kernel->terminate($request, $response);
