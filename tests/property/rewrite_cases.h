#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "compiler/algorithm/evaluate.h"
#include "compiler/rewrite/execute.h"

namespace astatide::test {

/// A cascade whose streaming form is derived, written as a user would. See README.md.
struct WorkedCase {
  std::string name;
  std::string scalars;              // "c: 0.18"
  std::vector<std::string> define;  // over s[i,j], r[i,j] and v[j,e]
  std::string outputs;
  std::vector<std::string> slots;  // names that the derivation is to give
  std::string gauge = "-";         // y or n for each maximum and minimum that is a reference; -: there is none
  bool positive_scores = false;
  bool stable = true;  // scores of size 40 are within its range
};

inline std::vector<WorkedCase> worked_cases() {
  const std::string m = "m[i] = max(j, s[i,j])", p = "p[i,j] = exp(s[i,j] - m[i])", l = "l[i] = sum(j, p[i,j])";
  const std::string o = "o[i,e] = sum(j, p[i,j] * v[j,e] / l[i])";
  const std::string n = "n[i] = sum(j, 1)", mu = "mu[i] = sum(j, s[i,j]) / n[i]";
  return {
      {"softmax and logsumexp",
       "",
       {"P[i,j] = softmax(j, s[i,j])", "o[i,e] = sum(j, P[i,j] * v[j,e])", "L[i] = logsumexp(j, s[i,j])"},
       "o, L",
       {"m", "l", "o_acc"},
       "y"},
      {"softmax written by hand", "", {m, p, l, o, "lse[i] = m[i] + log(l[i])"}, "o, lse", {"m", "l", "o_acc"}, "y"},
      {"weights as exp(s - logsumexp)",
       "",
       {"L[i] = logsumexp(j, s[i,j])", "P[i,j] = exp(s[i,j] - L[i])", "o[i,e] = sum(j, P[i,j] * v[j,e])"},
       "o",
       {"m", "l", "o_acc"},
       "y"},
      {"base 2, folded scale",
       "c: 0.18",
       {m, "p[i,j] = exp2(c * s[i,j] - c * m[i])", l, o, "lse[i] = c * m[i] + log2(l[i])"},
       "o, lse",
       {"m", "l", "o_acc"},
       "y"},
      {"sink inside the reference",
       "sink: 0.7",
       {"m0[i] = max(j, s[i,j])", "m[i] = max(m0[i], sink)", p, "l[i] = sum(j, p[i,j]) + exp(sink - m[i])", o,
        "lse[i] = m[i] + log(l[i])"},
       "o, lse",
       {"m0", "l_sum", "o_acc"},
       "y"},
      {"softcap, bias and softmax",
       "cap: 5, scale: 0.3, slope: 0 - 0.1",
       {"x[i,j] = cap * tanh(r[i,j] * scale / cap) + slope * j + s[i,j]", "P[i,j] = softmax(j, x[i,j])",
        "o[i,e] = sum(j, P[i,j] * v[j,e])"},
       "o",
       {"m", "l", "o_acc"},
       "y"},
      {"sigmoid", "b: 0 - 1", {"o[i,e] = sum(j, sigmoid(s[i,j] + b) * v[j,e])"}, "o", {"o_acc"}},
      {"normalised sum",
       "",
       {"l[i] = sum(j, s[i,j])", "o[i,e] = sum(j, s[i,j] / l[i] * v[j,e])"},
       "o",
       {"l", "o_acc"},
       "-",
       true},
      {"retention",
       "",
       {"l[i] = sum(j, s[i,j])", "o[i,e] = sum(j, s[i,j] * v[j,e] / max(abs(l[i]), 1))"},
       "o",
       {"l", "o_acc"},
       "-",
       true},
      {"logsumexp only", "", {"L[i] = logsumexp(j, s[i,j])"}, "L", {"m", "l"}, "y"},
      {"mean and variance",
       "",
       {n, mu, "var[i] = sum(j, (s[i,j] - mu[i]) * (s[i,j] - mu[i])) / n[i]"},
       "mu, var",
       {"n", "mu_sum", "var_sum"}},
      {"spread about a mean over all elements",
       "",
       {"n[i] = sum(j, 2) / 2", mu, "var[i] = sum(j, (s[i,j] - mu[i]) * (s[i,j] - mu[i])) / n[i]"},
       "var",
       {"n_sum_acc", "mu_sum", "var_sum"}},
      {"variance by the length of the axis",
       "",
       {"mu[i] = sum(j, s[i,j]) / J", "var[i] = sum(j, (s[i,j] - mu[i]) * (s[i,j] - mu[i])) / J"},
       "var",
       {"mu_sum", "n", "var_sum"}},
      {"fourth central moment",
       "",
       {n, mu, "d[i,j] = s[i,j] - mu[i]", "m4[i] = sum(j, d[i,j] * d[i,j] * d[i,j] * d[i,j]) / n[i]"},
       "m4",
       {"n", "mu_sum", "m4_sum_acc", "m4_sum_acc_2", "m4_sum_acc_3"},
       "-",
       false,
       false},
      {"L2-normalised scores",
       "",
       {"q[i] = sum(j, s[i,j] * s[i,j])", "o[i,e] = sum(j, s[i,j] / sqrt(q[i]) * v[j,e])"},
       "o",
       {"q", "o_acc"}},
      {"scaled L2 norm",
       "",
       {"a[i] = max(j, abs(s[i,j]))", "q[i] = sum(j, (s[i,j] / a[i]) * (s[i,j] / a[i]))",
        "norm[i] = a[i] * sqrt(q[i])"},
       "norm",
       {"a", "q"},
       "y"},
      {"entropy",
       "",
       {"P[i,j] = softmax(j, s[i,j])", "H[i] = sum(j, 0 - P[i,j] * log(P[i,j]))", "o[i,e] = sum(j, P[i,j] * v[j,e])"},
       "o, H",
       {"m", "l", "H_acc", "o_acc"},
       "y"},
      {"argmax",
       "",
       {m, "k[i] = min(j, select(s[i,j] == m[i], j, inf))", p, l, o},
       "o, k",
       {"m", "k_acc", "l", "o_acc"},
       "n"},
      {"argmax by a predicate",
       "",
       {m, "at[i,j] = j where s[i,j] == m[i]", "k[i] = min(j, at[i,j])"},
       "k",
       {"m", "k_acc"},
       "n"},
      {"hardmax",
       "",
       {m, "h[i,j] = select(s[i,j] == m[i], 1, 0)", "l[i] = sum(j, h[i,j])", "o[i,e] = sum(j, h[i,j] * v[j,e] / l[i])"},
       "o",
       {"m", "l", "o_acc"},
       "n"},
      {"textbook softmax without a maximum",
       "",
       {"p[i,j] = exp(s[i,j])", l, o, "lse[i] = log(l[i])"},
       "o, lse",
       {"m", "l_acc", "o_acc"},
       "y",
       false,
       true},
      {"log-softmax weighted sum",
       "",
       {m, l.substr(0, 0) + p, l, "o[i,e] = sum(j, (s[i,j] - m[i] - log(l[i])) * v[j,e])"},
       "o",
       {"m", "l", "o_acc", "o_acc_2"},
       "y",
       false,
       true},
      {"variance of scores under softmax",
       "",
       {m, p, l, "t[i] = sum(j, p[i,j] * s[i,j] / l[i])",
        "V[i] = sum(j, p[i,j] / l[i] * (s[i,j] - t[i]) * (s[i,j] - t[i]))"},
       "V, t",
       {"m", "l", "t_acc", "V_acc"},
       "y"},
      {"KL divergence of two softmaxes",
       "",
       {m, p, l, "m2[i] = max(j, r[i,j])", "l2[i] = sum(j, exp(r[i,j] - m2[i]))",
        "D[i] = sum(j, p[i,j] / l[i] * (s[i,j] - m[i] - log(l[i]) - r[i,j] + m2[i] + log(l2[i])))"},
       "D",
       {"m", "l", "m2", "l2", "D_acc", "D_acc_2"},
       "yy"},
      {"differential attention",
       "lam: 0.4",
       {"P[i,j] = softmax(j, s[i,j])", "R[i,j] = softmax(j, r[i,j])",
        "o[i,e] = sum(j, (P[i,j] - lam * R[i,j]) * v[j,e])"},
       "o",
       {"m", "l", "m_2", "l_2", "o_acc", "o_acc_2"},
       "yy"},
      {"maximum of a shifted score", "", {m, "w[i] = max(j, r[i,j] - m[i])"}, "w", {"m", "w_acc"}},
      {"soft minimum",
       "",
       {"a[i] = min(j, s[i,j])", "p[i,j] = exp(a[i] - s[i,j])", l, o},
       "o",
       {"a", "l", "o_acc"},
       "y"},
  };
}

/// The case as an algorithm; `masked`: every score is read where keep[i,j] > 0 only.
inline Algorithm algorithm_of(const WorkedCase& worked, bool masked = false) {
  std::string text = "algorithm: worked\n";
  if (!worked.scalars.empty()) text += "scalars: {" + worked.scalars + "}\n";
  std::string define;
  for (std::string line : worked.define) {
    if (masked) {
      if (line == "n[i] = sum(j, 1)") line = "n[i] = sum(j, one[i,j])";
      for (const auto& [from, to] : {std::pair<std::string, std::string>{"s[i,j]", "A[i,j]"}, {"r[i,j]", "B[i,j]"}}) {
        for (std::size_t at = line.find(from); at != std::string::npos; at = line.find(from, at + 1)) {
          line.replace(at, from.size(), to);
        }
      }
    }
    define += "  - " + line + "\n";
  }
  const auto uses = [&](const std::string& word) { return define.find(word) != std::string::npos; };
  std::string masks;
  if (uses("A[i,j]")) masks += "  - A[i,j] = s[i,j] where keep[i,j] > 0\n";
  if (uses("B[i,j]")) masks += "  - B[i,j] = r[i,j] where keep[i,j] > 0\n";
  if (uses("one[i,j]")) masks += "  - one[i,j] = 1 where keep[i,j] > 0\n";
  define = masks + define;
  text += std::string("extents: [I, J") + (uses("v[j,e]") ? ", E" : "") + "]\n";
  text += uses("s[i,j]") ? "inputs: {s: [I, J]" : "inputs: {r: [I, J]";
  if (uses("r[i,j]") && uses("s[i,j]")) text += ", r: [I, J]";
  if (uses("v[j,e]")) text += ", v: [J, E]";
  if (uses("keep[")) text += ", keep: [I, J]";
  text += "}\ndefine:\n" + define + "outputs: [" + worked.outputs + "]\n";
  return parse_algorithm(text, "worked.yaml");
}

/// Values of one row: i = 0, J elements, E = 2.
struct RowData {
  std::int64_t length = 0;
  std::vector<double> s, r, keep, v;  // v: length * 2

  RowInputs inputs(const Algorithm& algorithm) const {
    RowInputs row;
    row.variables = {{"I", 1}, {"J", static_cast<double>(length)}, {"E", 2}, {"i", 0}};
    for (const Scalar& scalar : algorithm.scalars)
      row.variables[scalar.name] = evaluate_real(*scalar.default_value, {});
    row.read = [data = *this](const std::string& tensor, const std::vector<std::int64_t>& at) {
      if (tensor == "v") return data.v[static_cast<std::size_t>(at[0] * 2 + at[1])];
      const std::vector<double>& values = tensor == "s" ? data.s : tensor == "r" ? data.r : data.keep;
      return values[static_cast<std::size_t>(at[1])];
    };
    return row;
  }
};

inline Arguments arguments_of(const Algorithm& algorithm, const RowData& row) {
  Arguments arguments;
  for (const Extent& extent : algorithm.extents) {
    arguments.extents[extent.name] = extent.name == "I" ? 1 : extent.name == "E" ? 2 : row.length;
  }
  for (const Input& input : algorithm.inputs) {
    if (input.name == "v") {
      arguments.inputs["v"] = {{row.length, 2}, row.v};
    } else {
      arguments.inputs[input.name] = {{1, row.length},
                                      input.name == "s"   ? row.s
                                      : input.name == "r" ? row.r
                                                          : row.keep};
    }
  }
  return arguments;
}

/// What the evaluator of algorithms, which is the oracle, says.
inline RowOutputs evaluate_algorithm(const Algorithm& algorithm, const RowData& row) {
  RowOutputs outputs;
  for (const auto& [name, tensor] : evaluate(algorithm, arguments_of(algorithm, row))) outputs[name] = tensor.values;
  return outputs;
}

inline double uniform(std::mt19937& rng, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(rng);
}

/// `absent`: the share of elements with keep = 0.
inline RowData random_row(std::mt19937& rng, const WorkedCase& worked, std::int64_t length, double absent) {
  RowData row;
  row.length = length;
  const double size = worked.stable && uniform(rng, 0, 1) < 0.2 ? 40 : 3;
  for (std::int64_t j = 0; j < length; ++j) {
    row.s.push_back(worked.positive_scores ? uniform(rng, 0.1, 2) : uniform(rng, -size, size));
    row.r.push_back(uniform(rng, -3, 3));
    row.keep.push_back(uniform(rng, 0, 1) < absent ? 0 : 1);
    row.v.push_back(uniform(rng, -1, 1));
    row.v.push_back(uniform(rng, -1, 1));
  }
  return row;
}

inline bool close(double a, double b, double tolerance = 1e-9) {
  return a == b ||
         (std::isfinite(a) && std::isfinite(b) && std::abs(a - b) <= tolerance * (1 + std::abs(a) + std::abs(b)));
}

/// The first value that differs, as text; empty where all agree. A value that the definition does not have (0/0 of a
/// row without elements) must be no NaN in the streaming form, and is not compared.
inline std::string difference(const RowOutputs& wanted, const RowOutputs& got, double tolerance = 1e-9) {
  for (const auto& [name, values] : wanted) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      const double value = got.at(name).at(k);
      if (std::isnan(value)) return name + " is NaN";
      if (std::isnan(values[k]) || close(values[k], value, tolerance)) continue;
      return name + " is " + std::to_string(value) + ", not " + std::to_string(values[k]);
    }
  }
  return "";
}

inline std::string difference(const Recurrence& recurrence, const RowState& wanted, const RowState& got,
                              double tolerance = 1e-9) {
  for (std::size_t i = 0; i < wanted.slots.size(); ++i) {
    for (std::size_t k = 0; k < wanted.slots[i].size(); ++k) {
      if (close(wanted.slots[i][k], got.slots[i][k], tolerance)) continue;
      return recurrence.slots[i].name + " is " + std::to_string(got.slots[i][k]) + ", not " +
             std::to_string(wanted.slots[i][k]);
    }
  }
  return "";
}

inline std::vector<std::int64_t> positions_of(const RowData& row) {
  std::vector<std::int64_t> positions;
  for (std::int64_t j = 0; j < row.length; ++j) positions.push_back(j);
  return positions;
}

/// Tiles of random lengths, one after the other.
inline RowState stream(const RowExecutor& executor, std::mt19937& rng, const std::vector<std::int64_t>& positions,
                       const LazyReferences& lazy = {}) {
  RowState state = executor.identity();
  for (std::size_t at = 0; at < positions.size();) {
    const std::size_t end = std::min(positions.size(), at + 1 + rng() % 7);
    state = executor.step(
        state,
        {positions.begin() + static_cast<std::ptrdiff_t>(at), positions.begin() + static_cast<std::ptrdiff_t>(end)},
        lazy);
    at = end;
  }
  return state;
}

/// States of random parts, with identities among them, merged in a random tree.
inline RowState tree(const RowExecutor& executor, std::mt19937& rng, std::vector<std::int64_t> positions,
                     const LazyReferences& lazy = {}) {
  std::shuffle(positions.begin(), positions.end(), rng);
  std::vector<RowState> parts{executor.identity(), executor.identity()};
  for (std::size_t at = 0; at < positions.size();) {
    const std::size_t end = std::min(positions.size(), at + 1 + rng() % 9);
    parts.push_back(stream(
        executor, rng,
        {positions.begin() + static_cast<std::ptrdiff_t>(at), positions.begin() + static_cast<std::ptrdiff_t>(end)},
        lazy));
    at = end;
  }
  const auto take = [&] {
    std::swap(parts[rng() % parts.size()], parts.back());
    RowState part = parts.back();
    parts.pop_back();
    return part;
  };
  while (parts.size() > 1) {
    const RowState a = take(), b = take();
    parts.push_back(executor.combine(a, b));
  }
  return parts[0];
}

}  // namespace astatide::test
