"""The arithmetic of reports."""

import unittest

from report import ratios_to_best, round_ratios, table


def round_of(per_second: float, cpu: float, void: str | None = None) -> dict:
    return {
        "per_second": per_second,
        "cpu_microseconds": cpu,
        "loader_share": 0.5,
        "loader_bound": False,
        "void": void,
    }


def cell_of(**rounds: list) -> dict:
    return {
        name.replace("_", "-"): {"rounds": some, "failure": None, "pss_kib_under_load": 2048}
        for name, some in rounds.items()
    }


class Ratios(unittest.TestCase):
    def test_a_ratio_belongs_to_one_round(self):
        cell = cell_of(howdah=[round_of(100, 10), round_of(50, 20)], other=[round_of(50, 20), round_of(20, 50)])
        self.assertEqual(round_ratios(cell, "howdah", "other", "per_second"), [2.0, 2.5])

    def test_less_cpu_is_better(self):
        cell = cell_of(howdah=[round_of(100, 10)], other=[round_of(100, 30)])
        self.assertEqual(round_ratios(cell, "howdah", "other", "cpu_microseconds"), [3.0])

    def test_a_void_round_counts_for_neither_side(self):
        cell = cell_of(
            howdah=[round_of(100, 10), round_of(100, 10, "wrong body"), round_of(90, 10)],
            other=[round_of(50, 20), round_of(50, 20), round_of(50, 20, "timeout")],
        )
        self.assertEqual(round_ratios(cell, "howdah", "other", "per_second"), [2.0])

    def test_the_best_is_found_anew_in_each_round(self):
        cell = cell_of(
            howdah=[round_of(100, 10), round_of(100, 10)],
            one=[round_of(50, 20), round_of(80, 20)],
            two=[round_of(100, 20), round_of(40, 20)],
        )
        self.assertEqual(ratios_to_best(cell, "howdah", "per_second"), [1.0, 1.25])

    def test_who_did_not_take_part_has_no_ratio(self):
        cell = cell_of(howdah=[round_of(100, 10)])
        self.assertEqual(round_ratios(cell, "howdah", "h2o", "per_second"), [])
        self.assertEqual(ratios_to_best(cell, "howdah", "per_second"), [])


class Table(unittest.TestCase):
    def run_of(self, cells: dict) -> dict:
        names = {name for cell in cells.values() for name in cell}
        return {
            "base": "howdah",
            "machine": {"cpu": "C", "cores": 2, "kernel": "K", "distribution": "D", "load_average": "0"},
            "settings": {"connections": 32, "rounds": 1, "seconds": 1, "php_processes": 32},
            "peers": {
                name: {"title": name.title(), "version": "1", "unequal": None, "pss_kib_idle": None} for name in names
            },
            "notes": [],
            "cells": cells,
        }

    def test_void_rounds_are_named_with_their_reason(self):
        cell = cell_of(howdah=[round_of(100, 10), round_of(9, 1, "2 timeout")], nginx_fpm=[round_of(50, 20)] * 2)
        text = table(self.run_of({"HelloWorld.php": cell}))
        self.assertIn("Howdah (1 void)", text)
        self.assertIn("void: HelloWorld.php, howdah, round 2: 2 timeout", text)

    def test_a_target_is_reached_with_both_figures_or_not_at_all(self):
        cell = cell_of(howdah=[round_of(500, 10)], nginx_fpm=[round_of(100, 20)])
        text = table(self.run_of({"HelloWorld.php": cell}))
        self.assertIn("| HelloWorld.php | nginx-fpm | 4.0 | 5.00 | 2.00 | requests/s only |", text)
        self.assertIn("| HelloWorld.php | apache-mod_php | 2.5 | – | – | not measured |", text)


if __name__ == "__main__":
    unittest.main()
