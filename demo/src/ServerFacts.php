<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** Facts that the server tells of itself, for the panel. A fact that is not known is null. */
final readonly class ServerFacts
{
    public function __construct(
        public string $software,
        public string $php,
        public string $sapi,
        public ?string $pool,
        public int $worker,
        public ?int $workerRequests,
        public bool $opcache,
        public ?float $opcacheHitRate,
        public ?int $opcacheScripts,
    ) {
    }

    public static function gather(): self
    {
        $opcache = function_exists('opcache_get_status') ? @opcache_get_status(false) : false;
        $requests = $_SERVER['HOWDAH_WORKER_REQUESTS'] ?? null;
        return new self(
            software: $_SERVER['SERVER_SOFTWARE'] ?? '',
            php: PHP_VERSION,
            sapi: PHP_SAPI,
            pool: $_SERVER['HOWDAH_POOL'] ?? null,
            worker: getmypid(),
            workerRequests: $requests === null ? null : (int) $requests,
            opcache: is_array($opcache) && $opcache['opcache_enabled'],
            opcacheHitRate: $opcache['opcache_statistics']['opcache_hit_rate'] ?? null,
            opcacheScripts: $opcache['opcache_statistics']['num_cached_scripts'] ?? null,
        );
    }

    /** Milliseconds since the request came in. Asked as late as the page allows. */
    public static function elapsed(): float
    {
        return (microtime(true) - $_SERVER['REQUEST_TIME_FLOAT']) * 1000;
    }

    public static function peakMemory(): int
    {
        return memory_get_peak_usage();
    }
}
