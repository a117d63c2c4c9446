<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** Which page of how many. */
final readonly class Pagination
{
    private function __construct(
        public int $page,
        public int $pages,
        public int $total,
        private int $perPage,
    ) {
    }

    /** Null where there is no such page. */
    public static function of(int $total, int $perPage, mixed $asked): ?self
    {
        $pages = max(1, (int) ceil($total / $perPage));
        $range = ['min_range' => 1, 'max_range' => $pages];
        $page = filter_var($asked, FILTER_VALIDATE_INT, ['options' => $range]);
        return $page === false ? null : new self($page, $pages, $total, $perPage);
    }

    public function offset(): int
    {
        return ($this->page - 1) * $this->perPage;
    }

    /**
     * The numbers to show: the first, the last and those around this page; null stands for a gap.
     *
     * @return list<int|null>
     */
    public function numbers(): array
    {
        $numbers = [];
        $last = 0;
        for ($number = 1; $number <= $this->pages; $number++) {
            if ($number === 1 || $number === $this->pages || abs($number - $this->page) <= 1) {
                if ($number > $last + 1) {
                    $numbers[] = $number === $last + 2 ? $number - 1 : null;
                }
                $numbers[] = $last = $number;
            }
        }
        return $numbers;
    }
}
