"""The mutation gate: defects sown into bounds, certificates and their like, all to be caught.

Each is one edit of one file, made in a copy of the package; the tests named with it must then fail.
`make mutants` runs them all, some ten minutes, and exits with 1 if any survives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
CERTIFICATE = "tests/certificates/test_certificate.py tests/networks/test_risk.py"
FIXED_C = "tests/bounds/test_fixed_c.py"
PLAN = "tests/bounds/test_planning.py"
VERIFY = "tests/test_verify.py"
QUADRATURE = "tests/networks/test_quadrature.py"
ATTACKS = "tests/attacks"
DRAWN = "tests/certificates/test_kept.py"
ESTIMATOR = "tests/test_sklearn.py -k not(scikit_learn_has)"
EXAMPLES = "tests/data/test_sample.py"
FORGED = "tests/attacks/test_forged_files.py"
CARELESS = "tests/attacks/test_careless_use.py"
REDRAW = "tests/test_redraw.py"
KEYED = "tests/networks/test_risk.py tests/attacks/test_forged_files.py"
TABLES = "tests/data/test_reading.py"
ENCODING = "tests/data/test_encoding.py"
CERTIFIED = "tests/certified -k not(has_nothing)"
MUTANTS: list[tuple[str, str, str, str]] = [
    # file, what stands there, the defect, the tests that must notice
    (
        "bounds/small_kl.py",
        "math.log(2 * math.sqrt(n) / delta)",
        "math.log(2 / delta)",
        "tests/bounds",
    ),
    ("bounds/small_kl.py", "sqrt(n) / delta)", "sqrt(n) / (1 - delta))", "tests/bounds"),
    ("bounds/small_kl.py", "/ delta)) / n)", "/ delta)) / (2 * n))", "tests/bounds"),
    (
        "bounds/small_kl.py",
        "upward((kl + math",
        "(lambda v: v * (1 - 2**-46))((kl + math",
        "tests/bounds",
    ),
    ("bounds/small_kl.py", "risk + math.sqrt(c / 2)", "risk + math.sqrt(c) / 2", "tests/bounds"),
    ("bounds/small_kl.py", "(risk + c / lam) / (1 - lam / 2)", "(risk + c / lam)", "tests/bounds"),
    ("bounds/small_kl.py", "least_n=8", "least_n=1", "tests/bounds"),
    ("bounds/catoni.py", "- math.log(delta)", "+ math.log(delta)", "tests/bounds"),
    ("bounds/catoni.py", "+ 2 * math.log(2 +", "+ 0 * math.log(2 +", "tests/bounds"),
    ("bounds/catoni.py", "risk + alpha / lam", "risk + 1 / lam", "tests/bounds"),
    ("bounds/catoni.py", "upward(_bound(", "(_bound(", "tests/bounds"),
    (
        "bounds/binary_kl.py",
        "return high\n\n\ndef kl_inverse_below",
        "return low\n\n\ndef kl_inverse_below",
        "tests/bounds",
    ),
    ("bounds/binary_kl.py", "value - error >= c", "value + error >= c", "tests/bounds"),
    ("bounds/domain.py", "x * (1 + 2.0**-46)", "x", "tests/bounds"),
    ("bounds/domain.py", "math.ceil(Fraction(value)", "math.floor(Fraction(value)", "tests/bounds"),
    ("bounds/bernstein.py", "math.log(k / delta)", "math.log(1 / delta)", "tests/bounds"),
    ("bounds/split_kl.py", "2 * len(steps) * math", "2 * math", "tests/bounds"),
    ("bounds/votes.py", "2 * kl + math.log(2", "kl + math.log(2", "tests/bounds"),
    ("bounds/votes.py", "4 * kl_inverse", "2 * kl_inverse", "tests/bounds"),
    ("bounds/votes.py", "math.log(4 * math", "math.log(2 * math", "tests/bounds"),
    ("bounds/votes.py", "* networks / delta", "/ delta", "tests/bounds"),
    ("bounds/fixed_c.py", "kl - math.log(delta), n", "kl, n", FIXED_C),
    ("bounds/fixed_c.py", "math.log(networks) - math.log(delta)", "-math.log(delta)", FIXED_C),
    ("bounds/fixed_c.py", "max(0.0, total + 1e-12)", "total", FIXED_C),
    ("bounds/fixed_c.py", "total + math.log(len(values))", "total", FIXED_C),
    ("bounds/fixed_c.py", "upward(math.expm1(-(C", "(math.expm1(-(C", FIXED_C),
    ("bounds/fixed_c.py", "/ math.expm1(-C)))", "/ -C))", FIXED_C),
    ("bounds/fixed_c.py", "return high\n\n\ndef _closed", "return low\n\n\ndef _closed", FIXED_C),
    ("bounds/fixed_c.py", "- price - error", "- price + error", FIXED_C),
    ("bounds/fixed_c.py", "n * (-math.log1p(x)", "2 * n * (-math.log1p(x)", FIXED_C),
    ("bounds/fixed_c.py", ">= 1 + 4 * epsilon", ">= 0.5 + 4 * epsilon", FIXED_C),
    ("bounds/fixed_c.py", "min(max(guess, edge), 1 - edge)", "guess", FIXED_C),
    ("bounds/fixed_c.py", "(r * (1 - p))", "r", FIXED_C),
    ("bounds/fixed_c.py", "0 < value < math.inf", "0 <= value < math.inf", FIXED_C),
    ("bounds/planning.py", "n - round((1 - self.fraction) * n)", "round(self.fraction * n)", PLAN),
    ("bounds/planning.py", "m * self.error - 1e-9", "m * self.error", PLAN),
    ("bounds/planning.py", "max(self.typical_errors(m), int(", "max(0, int(", PLAN),
    ("bounds/planning.py", "half = delta / 2", "half = delta", PLAN),
    ("bounds/planning.py", "(k - 0.5) / m", "k / m", PLAN),
    ("bounds/planning.py", "least == m:", "least <= m + 1:", PLAN),
    ("bounds/planning.py", "high - low > 1", "high - low > 2", PLAN),
    ("bounds/planning.py", "floor(m / case.fraction) - 2", "floor(m / case.fraction) + 2", PLAN),
    ("bounds/planning.py", "min(self.splits, key", "max(self.splits, key", PLAN),
    (
        "bounds/monte_carlo.py",
        "-math.log(delta) / draws))",
        "-math.log(delta) / (2 * draws)))",
        "tests/bounds",
    ),
    ("bounds/monte_carlo.py", "math.log(2 / delta)", "math.log(1 / delta)", "tests/bounds"),
    (
        "bounds/monte_carlo.py",
        "pairs, delta / 2) / 2",
        "pairs, delta / 2) / 4",
        "tests/bounds tests/test_verify.py",
    ),
    (
        "bounds/monte_carlo.py",
        "draws, delta / 2)",
        "draws, delta)",
        "tests/bounds tests/test_verify.py",
    ),
    (
        "bounds/monte_carlo.py",
        "np.concatenate([[0.25], variances[:-1]])",
        "variances",
        "tests/bounds",
    ),
    (
        "bounds/ledger.py",
        "> Fraction(self.total)",
        "> 2 * Fraction(self.total)",
        "tests/bounds/test_ledger.py",
    ),
    (
        "bounds/ledger.py",
        "below(Fraction(total) / len(names))",
        "total",
        "tests/bounds/test_ledger.py",
    ),
    ("certificates/certify.py", "* (1 + _ROUNDING)", "* (1 - _ROUNDING)", CERTIFICATE),
    (
        "certificates/certify.py",
        "math.fsum(parts.values()) * (1",
        "math.fsum(list(parts.values())[1:]) * (1",
        CERTIFICATE,
    ),
    (
        "certificates/certify.py",
        "risk.draws or 1.0",
        "float(risk.n * risk.samples)",
        CERTIFICATE,
    ),
    ("certificates/certify.py", "min(1.0, risk.mean + slack)", "risk.mean", CERTIFICATE),
    (
        "certificates/certify.py",
        "slack = (_ROUNDING + grid[1])",
        "slack = (_ROUNDING)",
        CERTIFICATE,
    ),
    (
        "certificates/certify.py",
        "range(1, priors)",
        "range(1, 1)",
        "tests/training/test_priors.py",
    ),
    ("certificates/certify.py", "    network.seal_prior()\n", "", CERTIFICATE),
    ("certificates/certify.py", "(2 if pairs else 1)", "1", CERTIFICATE),
    (
        "certificates/kept.py",
        "checked_copy(network, x, y, repeats=repeats, sample=sample)",
        "network.double().eval()",
        DRAWN,
    ),
    (
        "certificates/certify.py",
        "measured.of_pairs() if pairs",
        "measured if True",
        CERTIFICATE,
    ),
    (
        "data/sample.py",
        "again > max(_ANYWAY, (_REPEATED_DISCRETE if discrete else _REPEATED) * len(rows))",
        "again > len(rows)",
        CERTIFICATE,
    ),
    ("networks/quadrature.py", "2 * math.exp(min(values))", "math.exp(max(values))", QUADRATURE),
    (
        "networks/quadrature.py",
        "(classes - 1) * math.log(M)",
        "(classes - 2) * math.log(M)",
        QUADRATURE,
    ),
    (
        "networks/quadrature.py",
        "below.sum(-1, keepdim=True) - below",
        "below.sum(-1, keepdim=True)",
        QUADRATURE,
    ),
    ("networks/quadrature.py", "REACH = 7.0", "REACH = 3.0", QUADRATURE),
    (
        "networks/weights.py",
        "far.square() - near.square()) + s0 - s",
        "far.square() - near.square())",
        DRAWN,
    ),
    (
        "certificates/kept.py",
        'keywords={"networks": networks}',
        'keywords={"networks": 1}',
        DRAWN,
    ),
    ("networks/weights.py", "(~(margin > _CLOSE))", "(margin < 0)", DRAWN),
    ("certificates/certify.py", 'ledger["monte-carlo"] if', "delta if", CERTIFICATE),
    ("networks/network.py", "now[1] != then[1]", "False", CERTIFICATE),
    ("networks/network.py", "now[0] != then[0]", "False", CERTIFICATE),
    (
        "certificates/certify.py",
        "copy.deepcopy(network).double().eval()",
        "copy.deepcopy(network).double()",
        CERTIFICATE,
    ),
    (
        "certificates/certify.py",
        "best_of if bound == BEST_OF",
        "best_of[:1] if bound == BEST_OF",
        CERTIFICATE,
    ),
    (
        "certificates/certify.py",
        "Ledger.equal(shares[half], *names",
        "Ledger.equal(delta, *names",
        CERTIFICATE,
    ),
    ("networks/risk.py", "self.total / n", "self.total / (n + 1)", CERTIFICATE),
    ("networks/risk.py", "/ (1 if own else self.largest)", "", CERTIFICATE),
    ("networks/risk.py", "own and pairs", "pairs", CERTIFICATE),
    ("networks/risk.py", "self.samples * (self.samples // 2)", "1", CERTIFICATE),
    (
        "networks/gaussian.py",
        "(r.expm1() - r).sum()",
        "r.expm1().sum()",
        "tests/networks/test_gaussian.py",
    ),
    (
        "networks/gaussian.py",
        "_refuse_parameters_outside(module)\n    parts",
        "parts",
        "tests/networks/test_gaussian.py",
    ),
    ("verify.py", "bool(arb(c.kl) >= kl)", "True", VERIFY),
    ("verify.py", "total += r.expm1() - r", "total += 0 * r", VERIFY),
    ("verify.py", "certificate=c.n, run=run.data.n", "run=run.data.n", VERIFY),
    ("verify.py", "certificate=c.n, run=run.data.n", "certificate=c.n", VERIFY),
    ("verify.py", "classes, run=run.data.classes", "classes", VERIFY),
    ("verify.py", "c.predictor, theorem=c.theorem.predictor", "c.predictor", VERIFY),
    ("verify.py", "certificate=claimed, run=run.prior_sha256", "certificate=claimed", VERIFY),
    ("verify.py", "certificate=claimed, run=run.data.train_sha256", "certificate=claimed", VERIFY),
    ("verify.py", "holds = c.draws == N and risk <= upper", "holds = risk <= upper", VERIFY),
    ("verify.py", "c.draws == N and risk <= upper and", "c.draws == N or", VERIFY),
    ("verify.py", "bool(arb(upper) >= value)", "bool(arb(upper) <= value)", VERIFY),
    ("verify.py", "bool(arb(c.bound) >= value)", "bool(arb(c.bound) <= value)", VERIFY),
    ("verify.py", "own in header", "True", VERIFY),
    ("verify.py", "bool(arb(c.quadrature_error) >= best)", "True", VERIFY),
    ("verify.py", "bool(arb(c.kl) >= ratio)", "True", VERIFY),
    ("verify.py", "c.risk >= wrong / c.n", "True", VERIFY),
    ("verify.py", "found == claimed,", "True,", VERIFY),
    ("verify.py", "shapes == _shapes(run),", "True,", VERIFY),
    ("verify.py", "row.networks * kl", "kl", VERIFY),
    ("enclosures.py", "Theorem(_VOTE, 1, 2, _small_kl)", "Theorem(_VOTE, 1, 1, _small_kl)", VERIFY),
    ("enclosures.py", "Theorem(_VOTE, 2, 4, _small_kl)", "Theorem(_VOTE, 2, 2, _small_kl)", VERIFY),
    ("verify.py", "found == drawn.tobytes()", "True", "tests/training/test_priors.py"),
    ("verify.py", "0.0) >= part", "0.0) >= 0", "tests/training/test_priors.py"),
    ("verify.py", "self.theorem.networks * self.quadrature_error", "self.quadrature_error", VERIFY),
    ("verify.py", "/ max(1, networks)", "", VERIFY),
    ("verify.py", "and c.risk == c.risk_upper", "", VERIFY),
    ("verify.py", "np.isfinite(w).all()", "True", VERIFY),
    ("verify.py", "== expected", "!= {}", VERIFY),
    ("verify.py", "not learned}", "True}", VERIFY),
    ("verify.py", "run.data.split_sha256 == claimed", "True", VERIFY),
    ("verify.py", "c.samples == 0 and c.monte_carlo is None", "True", VERIFY),
    ("verify.py", 'settings.activation == "sign" or not settings.widths', "True", VERIFY),
    ("enclosures.py", 't.parameters.get("alpha") != _ALPHA', "False", VERIFY),
    ("enclosures.py", "_inverse(2 * within,", "_inverse(within,", VERIFY),
    ("verify.py", 'not faults, "; "', 'True, "; "', VERIFY),
    (
        "training/priors.py",
        "np.sort(order[count:])",
        "np.sort(order)",
        "tests/training/test_priors.py",
    ),
    (
        "sklearn/classifier.py",
        "fitted(self.preprocessing, X[own], y[own])",
        "fitted(self.preprocessing, X, y)",
        ESTIMATOR,
    ),
    ("sklearn/certifying.py", "x[bound], y[bound], (as", "x, y, (as", ESTIMATOR),
    ("sklearn/certifying.py", "model.delta, ", "0.5, ", ESTIMATOR),
    ("sklearn/certifying.py", '"priors": model.priors, ', "", ESTIMATOR),
    ("sklearn/certifying.py", "samples=model.votes_", "samples=100", ESTIMATOR),
    (
        "sklearn/classifier.py",
        "samples=self.votes_,\n            weights",
        "samples=100,\n            weights",
        ESTIMATOR,
    ),
    (
        "networks/predictors.py",
        "one_by_one(partial(predict_randomised, network), x, seed)",
        "predict_randomised(network, x)",
        ESTIMATOR,
    ),
    ("certificates/certificate.py", "theorem.factor * self.risk)", "self.risk)", CERTIFICATE),
    (
        "certificates/certificate.py",
        "numbers = (e.upper, e.kl",
        "numbers = (e.risk.mean, e.kl",
        CERTIFICATE,
    ),
    (
        "certificates/certificate.py",
        "e.risk.n, ledger[part])",
        "e.risk.n, ledger.total)",
        CERTIFICATE,
    ),
    ("bounds/theorems.py", "factor=4.0, pairs=True", "factor=4.0", CERTIFICATE),
    (
        "bounds/theorems.py",
        "first_order, Predictor.VOTE",
        "first_order, Predictor.RANDOMISED",
        CERTIFICATE,
    ),
    (
        "networks/predictors.py",
        "task.decode(labels)",
        "task.decide(-labels)",
        "tests/runs/test_prediction.py",
    ),
    ("networks/architecture.py", "and network.head is head\n", "", "tests/engine/test_network.py"),
    (
        "networks/architecture.py",
        'and getattr(network.body, "rules", []) == rules\n',
        "",
        "tests/engine/test_network.py",
    ),
    ("networks/gaussian.py", "names.setdefault(id(m), name) != name", "False", ATTACKS),
    ("networks/gaussian.py", "torch.full_like(g.log_scale, -math.inf)", "g.log_scale", ATTACKS),
    (
        "networks/gaussian.py",
        "(g.mean + g.log_scale.exp() * noise).detach()",
        "g.mean.detach()",
        ATTACKS,
    ),
    (
        "networks/bodies.py",
        "if torch.is_grad_enabled():\n            return Draw(torch.stack([self",
        "if True:\n            return Draw(torch.stack([self",
        ATTACKS,
    ),
    (
        "networks/bodies.py",
        "        self.module.eval()\n        return self",
        "        return self",
        ATTACKS,
    ),
    (
        "networks/layers.py",
        "+ self.bias.variance).sqrt()",
        "+ self.weight.variance).sqrt()",
        ATTACKS,
    ),
    ("networks/network.py", "if self._sealed is None:", "if False:", ATTACKS),
    ("certificates/certify.py", "    _check_known(exact)\n", "", ATTACKS),
    ("data/pipelines.py", "and _requires_fit(step)", "and False", ATTACKS),
    ("data/pipelines.py", "elif not isinstance(owner, _UNCHANGED)", "elif False", ATTACKS),
    ("data/pipelines.py", "_is_fitted(found) and", "False and", ATTACKS),
    ("data/sizes.py", "_SHARE * _available_memory()", "1e18", ATTACKS),
    ("data/sizes.py", "max(_claimed(archive, name), ", "(", ATTACKS),
    ("data/sizes.py", "if len(result) > most", "if False", ATTACKS),
    ("sklearn/classifier.py", "        self._forget()\n", "", ATTACKS),
    ("sklearn/certifying.py", "model.priors == 1 and is_searched(model)", "False", ATTACKS),
    ("bounds/domain.py", "return str(exact) if", "return str(float(exact)) if not", ATTACKS),
    (
        "experiments/lease.py",
        "self._files() if file != own",
        "[] if file != own",
        "tests/experiments/test_store.py",
    ),
    (
        "experiments/lease.py",
        "if not self._created(own)",
        "if self._created(own) is None",
        "tests/experiments/test_store.py",
    ),
    (
        "networks/architecture.py",
        "and network.baseline is baseline\n",
        "",
        "tests/engine/test_network.py",
    ),
    (
        "networks/architecture.py",
        "shapes == [(self.learned_scale, e, d) for d, e in pairwise(self.sizes)]\n            and ",
        "",
        "tests/engine/test_network.py",
    ),
    ("data/tasks.py", "(y != 1) & (y != -1)", "(y > 1) | (y < -1)", "tests/data/test_tasks.py"),
    (
        "data/tasks.py",
        "self.margin(value, y) <= 0",
        "self.margin(value, y) < 0",
        "tests/data/test_tasks.py",
    ),
    ("training/loop.py", "self.begin_epoch()\n", "pass\n", "tests/training/test_priors.py"),
    ("training/objectives.py", "number % 2 == 1", "False", "tests/training/test_trainer.py"),
    ("training/schedules.py", "0.5 ** halvings(bounds)", "1.0", "tests/training/test_trainer.py"),
    ("sklearn/classifier.py", "refuse_batch_effects(self.preprocessing_, X)", "pass", ESTIMATOR),
    ("sklearn/learning.py", " | trainer.best", "", ESTIMATOR),
    ("sklearn/certifying.py", '"first-order" if', '"small-kl" if', ESTIMATOR),
    ("sklearn/certifying.py", 'own["sample"] = sample', "pass", ESTIMATOR),
    ("sklearn/classifier.py", "as_they_came=torch.tensor(X)", "as_they_came=x", ESTIMATOR),
    ("randomness.py", "key + row", "row", "tests/test_randomness.py"),
    ("randomness.py", "digest[:8]", "key", "tests/test_randomness.py"),
    ("data/sample.py", "for these in (together, alone)", "for these in (together,)", EXAMPLES),
    ("data/sample.py", "_close(rows.std(0), 1)", "False", EXAMPLES),
    ("data/sample.py", "_close(median, 0) and", "False and", EXAMPLES),
    (
        "data/sample.py",
        "continuous = distinct > len(rows) / 2",
        "continuous = distinct > 0",
        EXAMPLES,
    ),
    ("data/fitting.py", "own = frame.take(rows)", "own = frame", ENCODING),
    ("data/fitting.py", "np.median(values[~absent])", "np.nanmean(values)", ENCODING),
    ("data/fitting.py", "math.fsum(x.tolist()) / len(x)", "float(x.mean())", ENCODING),
    ("data/fitting.py", "if counts[word] >= least", "if counts[word] > least", ENCODING),
    ("data/fitting.py", "if column.kind is Kind.CATEGORY:", "if False:", ENCODING),
    ("data/fitting.py", "if column.missing.any():", "if False:", ENCODING),
    ("data/fitting.py", "if truth_words(list(counts))", "if False", ENCODING),
    ("data/encoding.py", "dict.fromkeys(self.rare, len(known))", "{}", ENCODING),
    ("data/encoding.py", "        check_features(x, where)\n", "", ENCODING),
    ("data/columns.py", "given & (~odd if", "given & False & (~odd if", TABLES),
    ("data/columns.py", "words = sorted(self.codes)", "words = list(self.codes)", TABLES),
    ("data/reading.py", "    _check_there(opened, [*drop, *categorical])\n", "", TABLES),
    (
        "data/reading.py",
        "{name: i for i, name in enumerate(opened.names)}",
        "{name: i for i, name in enumerate(kinds or opened.names)}",
        TABLES,
    ),
    ("data/frame.py", "head = [role, self.name, ", "head = [role, ", TABLES),
    ("data/arrow.py", 'if hasattr(frame, "reset_index"):', "if False:", TABLES),
    ("data/arrow.py", "    check_memory(4 * file", "    (4 * file", TABLES),
    ("data/text_file.py", "        check_memory(4 * rows,", "        (4 * rows,", TABLES),
    ("data/text_file.py", "newlines_in_values=self.quoted", "newlines_in_values=False", TABLES),
    ("data/text_file.py", "before += rows", "before += 0", TABLES),
    # draws by key, seeds that pay, assumptions, near copies and the verifier's own numbers
    ("verify.py", "total <= Fraction(c.delta)", "True", VERIFY),
    ("verify.py", "spent * seeds <= Fraction(c.delta)", "True", FORGED),
    ("verify.py", "(settings.seed + 1) * (settings.seed + 2)", "(settings.seed + 1)", FORGED),
    ("verify.py", "and is_kept(drawn, number, laws, data)", "", VERIFY),
    ("verify.py", "or is_data_free(run.settings.seed, means)", "or True", FORGED),
    ("verify.py", 'bool(prior[f"{name}.prior_log_scale"] == scale)', "True", VERIFY),
    ("verify.py", "expected, certificate=given)", "expected)", FORGED),
    ("verify.py", 'Finding("examples", False', 'Finding("examples", True', FORGED),
    ("verify.py", "laws, bound_set) if full else c", "laws, bound_set) if False else c", FORGED),
    ("verify.py", "_bound(c, upper if full else c.risk_upper", "_bound(c, c.risk_upper", FORGED),
    ("verify.py", "laws[0] if prior is None else prior", "laws[0]", FORGED),
    ("verify.py", "else found.within", "else c.within", FORGED),
    ("verify.py", "found.tandem if c.theorem", "found.mean if c.theorem", VERIFY),
    ("redraw.py", "u, v = np.moveaxis", "v, u = np.moveaxis", FORGED),
    ("redraw.py", "values[-16:] = ", "values[:0] = ", FORGED),
    ("redraw.py", "np.abs(drawn - means).max() <= _ROUNDING", "True", FORGED),
    ("redraw.py", "while (again := _beyond(drawn, means)).any()", "if False", FORGED),
    ("redraw.py", "rng = _generator(_key(laws, data), number)", "rng = _generator(0, 0)", VERIFY),
    ("redraw.py", 'hasher.update(np.ascontiguousarray(data[0], dtype="<f4").data)', "pass", VERIFY),
    ("redraw.py", "_generator(key, block, part)", "_generator(key, block, 0)", FORGED),
    ("redraw.py", "losses[:half:2], losses[1:half:2]", "losses, losses", VERIFY),
    ("redraw.py", "h = step * scale.min", "h = 9 * step * scale.min", REDRAW),
    ("redraw.py", "total + doubtful, pairs / 2", "total, pairs / 2", REDRAW),
    ("redraw.py", "rows**2 @ self.weight_variance.T", "0 * rows @ self.weight_variance.T", VERIFY),
    ("redraw.py", "weight @ np.where(states > 0", "weight @ np.where(states < 0", REDRAW),
    ("bounds/ledger.py", "(seed + 1) * (seed + 2)", "(seed + 1)", FORGED),
    ("bounds/ledger.py", "if Fraction(nearest) > value", "if False", "tests/bounds/test_ledger.py"),
    ("certificates/certify.py", "if seed is None:", "if True:", FORGED),
    ("certificates/certify.py", "digest_outside(network) if has", "None if has", CARELESS),
    ("certificates/certify.py", "prior_seed=network.prior_seed", "prior_seed=None", FORGED),
    ("networks/keys.py", "(g.mean, g.log_scale)", "(g.mean,)", VERIFY),
    ("networks/keys.py", '    hasher.update(_bytes(x, "<f4"))\n', "", VERIFY),
    ("networks/risk.py", "keyed_generator(key, block,", "keyed_generator(key, 0,", KEYED),
    ("networks/risk.py", "clamp(0, 1), T / draws)", "clamp(0, 1))", KEYED),
    ("networks/bodies.py", "torch.addcmul(mean, deviation, noise.to(mean))", "mean", KEYED),
    (
        "networks/architecture.py",
        "None if settings.prior_fraction else",
        "None if True else",
        FORGED,
    ),
    ("data/sample.py", "near > _NEAR and not repeats", "False", FORGED),
    ("data/sample.py", "NEAR, _REMARKABLE = 0.2", "NEAR, _REMARKABLE = 0.9999", EXAMPLES),
    ("data/sample.py", "(_REPEATED_DISCRETE if discrete", "(_REPEATED if discrete", FORGED),
    ("data/sample.py", "_NATURAL ** (1 / D)", "1.0", EXAMPLES),
    ("data/sample.py", "units = (deviations.max(), deviations)", "units = (deviations,)", EXAMPLES),
    ("data/source.py", "os.path.relpath(Path(path).resolve(), folder.resolve())", "path", FORGED),
    ("report/votes.py", "count_test_errors(run, network, x, y, drawn, output)", "None", FORGED),
    ("runs/preparation.py", "remarks += check_split(", "remarks = remarks or (", FORGED),
    ("sklearn/learning.py", 'update={"seed": 0}', "update={}", CARELESS),
    ("enclosures.py", "for i in range(errors)", "for i in range(errors - 1)", VERIFY),
    ("enclosures.py", "total <= t.delta", "total <= 2 * t.delta", VERIFY),
    ("verify.py", "c.spent(c.part))\n\n\ndef _counted", "arb(0.05))\n\n\ndef _counted", VERIFY),
    ("certificates/kept.py", "Fraction(9, 10)", "Fraction(1)", DRAWN),
    ("certificates/kept.py", "drawn.bound < fixed.bound", "True", DRAWN),
    ("certificates/kept.py", "* share / priors", "* share", DRAWN),
    ("networks/weights.py", "g.prior_mean.double() for", "g.mean.double() for", DRAWN),
    ("sklearn/classifier.py", "self.predictor_ = self.certificate_.kind.value", "pass", ESTIMATOR),
    ("training/trainer.py", "        _refuse_other_scales(network, settings)\n", "", CARELESS),
    ("bounds/monte_carlo.py", "* (1 + _QUANTILE)", "", "tests/bounds/test_monte_carlo.py"),
    (
        "bounds/monte_carlo.py",
        "beta.isf(delta, errors + 1",
        "beta.isf(delta, errors",
        "tests/bounds/test_monte_carlo.py",
    ),
    ("bounds/theorems.py", "    if kl:\n", "    if False:\n", "tests/bounds/test_theorems.py"),
    ("certified/candidates.py", "w / total * (", "w * (", CERTIFIED),
    ("certified/claims.py", "delta * share / len(claims)", "delta * share", CERTIFIED),
    ("certified/claims.py", "delta * share / len", "delta / len", CERTIFIED),
    ("certified/claims.py", "self.y == label", "predicted == label", CERTIFIED),
    ("certified/claims.py", "~answers, np.float64", "answers, np.float64", CERTIFIED),
    ("certified/claims.py", "binary=binary and self.groups is None", "binary=binary", CERTIFIED),
    ("certified/splitting.py", "np.flatnonzero(~held)", "np.arange(n)", CERTIFIED),
    ("certified/splitting.py", "order[:size]", "np.arange(size)", CERTIFIED),
    (
        "certified/splitting.py",
        "np.arange(n) if groups is None else",
        "np.arange(n) if True else",
        CERTIFIED,
    ),
    ("certified/certificate.py", "int(total) / n", "max(0, int(total) - 1) / n", CERTIFIED),
    (
        "certified/certificate.py",
        "n, delta = len(losses), ledger[part]",
        "n, delta = len(losses), ledger.total",
        CERTIFIED,
    ),
    ("certified/certificate.py", "* (1 + _SUM_ERROR)", "", CERTIFIED),
    ("certified/losses.py", "(y, predicted))", "(predicted, y))", CERTIFIED),
    ("certified/votes.py", "len(sizes) * sizes[index]), len(sizes)", "count), count", CERTIFIED),
    ("certified/votes.py", "rho @ together @ rho", "(rho @ alone) ** 2", CERTIFIED),
    ("certified/votes.py", "rel_entr(rho, pi).sum()", "0.0", CERTIFIED),
    (
        "certified/choosing.py",
        "task.part(task.split.own)\n    jobs",
        "task.part(np.arange(len(task.y)))\n    jobs",
        CERTIFIED,
    ),
    ("certified/origin.py", "if is_searched(estimator)", "if False", CERTIFIED),
    ("certified/classifier.py", "            check_origin(self)\n", "", CERTIFIED),
    (
        "certified/classifier.py",
        "            check_rows(task.X",
        "            (lambda *_, **__: 0)(task.X",
        CERTIFIED,
    ),
]


def survives(file: str, there: str, defect: str, tests: str) -> bool:
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "src"
        shutil.copytree(ROOT / "src", copy)
        path = copy / "pacbayes" / file
        text = path.read_text()
        if there not in text:
            raise SystemExit(f"{file} has no {there!r}: bring tests/mutants.py up to date")
        path.write_text(text.replace(there, defect, 1))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, *tests.split()],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            check=False,
        )
        return done.returncode == 0


def main() -> None:
    survivors = 0
    for tests in sorted({tests for *_, tests in MUTANTS}):
        if not survives("bounds/ledger.py", "Ledger", "Ledger", tests):
            raise SystemExit(f"{tests} fails without any defect")
    for mutant in MUTANTS:
        alive = survives(*mutant)
        survivors += alive
        print(
            "SURVIVED" if alive else "caught  ",
            mutant[0],
            "·",
            mutant[1],
            "→",
            mutant[2],
            flush=True,
        )
    print(f"{len(MUTANTS) - survivors} of {len(MUTANTS)} caught")
    sys.exit(survivors > 0)


if __name__ == "__main__":
    main()
