#include "espalier/map/map_words.h"

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "espalier/base/near_miss.h"
#include "espalier/base/real_text.h"
#include "espalier/map/blocks.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/map_error.h"

namespace espalier {
namespace {

using WordNumbers = std::function<std::optional<double>(const std::string& word)>;

// The words that count tensors or steps along axes, which must be whole numbers.
std::set<std::string, std::less<>> size_words(const KeyMapParts& map) {
  std::set<std::string, std::less<>> words;
  for (const Rule& rule : map.rules) {
    words.insert(rule.words.begin(), rule.words.end());
    for (const auto* side : {&rule.left, &rule.right}) {
      for (const TensorTerm* tensor : tensors_of(*side)) {
        for (const TensorName& name : tensor->names) {
          if (!name.axes) continue;
          for (std::string& word : words_of(*name.axes)) words.insert(std::move(word));
        }
      }
    }
  }
  return words;
}

// Those, and the words of arithmetic.
std::set<std::string, std::less<>> map_words(const KeyMapParts& map) {
  std::set<std::string, std::less<>> words = size_words(map);
  for (const auto& [word, expressions] : map.sizes) words.insert(word);
  for (const Rule& rule : map.rules) {
    for (const auto* side : {&rule.left, &rule.right}) {
      for (const Part& part : *side) {
        for (const Term& term : part.terms) {
          for (const auto& [scalar, divides] : term.scalars) {
            for (std::string& word : words_of(scalar)) words.insert(std::move(word));
          }
        }
      }
    }
  }
  return words;
}

std::string printed_number(double number) {
  return std::isnan(number) ? std::string("a text or a list") : print_number(number);
}

tl::unexpected<Error> no_size(const std::string& word, double number, const std::string& origin) {
  return invalid_map("the size " + in_quotes(word) + " would be " + printed_number(number) + ' ' +
                     origin + ", and a size is a whole number from 0 on; correct that, or give " +
                     "it: --set " + word + "=...");
}

Result<void> check_required(const Planning& planning) {
  for (const auto& [word, wanted] : planning.map.parts().required) {
    auto found = number_of(planning, word);
    if (found && std::isnan(*found)) found = planning.options.config(word + kCountMark);
    const bool is_any = wanted == kAnyAbove0;
    if (!found || (is_any ? *found > 0 : *found == wanted)) continue;
    return invalid_map(in_quotes(word) + " is " + printed_number(*found) +
                       ", and the map is right for " +
                       (is_any ? std::string("numbers above 0") : print_number(wanted)) + " alone");
  }
  return {};
}

Result<void> check_given_sizes(const Planning& planning,
                               const std::set<std::string, std::less<>>& sizes) {
  for (const auto& [word, number] : planning.options.numbers) {
    if (sizes.contains(word)) return no_size(word, number, "as given");
  }
  return {};
}

struct Computed {
  double number = 0;
  std::string origin;
};

// By the first of the map's expressions whose words are all known.
std::optional<Computed> compute(const Planning& planning, const std::string& word,
                                const std::vector<Scalar>& expressions, const WordNumbers& known) {
  for (const Scalar& expression : expressions) {
    bool is_number = true;
    auto value = evaluate(expression, [&](const std::string& name) {
      const auto number = name != word              ? known(name)
                          : planning.options.config ? planning.options.config(name)
                                                    : std::nullopt;
      is_number = is_number && !(number && std::isnan(*number));
      return number;
    });
    if (!is_number) value = std::numeric_limits<double>::quiet_NaN();
    if (value) return Computed{*value, "by " + to_string(expression)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> as_size(double number) {
  constexpr double kMaxSize = 1e15;
  if (!(number >= 0 && number < kMaxSize) || std::floor(number) != number) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

std::set<std::string, std::less<>> given_words(const KeyMap& map) {
  std::set<std::string, std::less<>> words = map_words(map.parts());
  for (const auto& [own, expressions] : map.parts().sizes) {
    for (const Scalar& expression : expressions) {
      for (std::string& word : words_of(expression)) words.insert(std::move(word));
    }
  }
  for (const auto& [word, wanted] : map.parts().required) words.insert(word);
  words.insert({"lora_alpha", "use_rslora"});  // of an adapter: see AdapterSettings
  return words;
}

Result<void> check_given_words(const KeyMap& map, const LiftOptions& options) {
  const std::set<std::string, std::less<>> known = given_words(map);
  const auto check = [&](const std::string& word) -> Result<void> {
    if (known.contains(word) || options.other_words.contains(word)) return {};
    constexpr std::size_t kMostListed = 12;
    std::string message =
        "a number is given for " + in_quotes(word) + ", and the map has no such word";
    const auto near = near_miss(word, {known.begin(), known.end()});
    const std::set<std::string, std::less<>> own = map_words(map.parts());
    if (near) {
      message += did_you_mean(near);
    } else if (!own.empty() && own.size() <= kMostListed) {
      for (const std::string& each : own)
        message += (&each == &*own.begin() ? "; it has " : ", ") + each;
    }
    return invalid_map(message);
  };
  for (const auto& [word, size] : options.plan.sizes) {
    if (auto ok = check(word); !ok) return ok;
  }
  for (const auto& [word, number] : options.plan.numbers) {
    if (auto ok = check(word); !ok) return ok;
  }
  return {};
}

Result<void> find_numbers(Planning& planning) {
  const KeyMapParts& map = planning.map.parts();
  const std::set<std::string, std::less<>> sizes = size_words(map);
  if (auto ok = check_given_sizes(planning, sizes); !ok) return ok;
  planning.sizes = planning.options.sizes;
  for (const auto& [word, size] : planning.sizes) planning.origins.emplace(word, "as given");
  for (bool is_new = true; is_new;) {
    is_new = false;
    for (const auto& [word, expressions] : map.sizes) {
      if (planning.numbers.contains(word) || planning.options.sizes.contains(word) ||
          planning.options.numbers.contains(word)) {
        continue;
      }
      const auto found = compute(planning, word, expressions, [&](const std::string& name) {
        return number_of(planning, name);
      });
      if (!found) continue;
      is_new = true;
      if (std::isnan(found->number)) {
        return invalid_map("the number " + in_quotes(word) + " cannot be computed " +
                           found->origin + ": the configuration has a text or a list there");
      }
      planning.numbers.emplace(word, found->number);
      // Other words are for arithmetic alone.
      const auto size = as_size(found->number);
      if (!size && sizes.contains(word)) return no_size(word, found->number, found->origin);
      if (!size) continue;
      planning.sizes.emplace(word, *size);
      planning.origins.emplace(word, found->origin);
    }
  }
  return check_required(planning);
}

std::optional<double> number_of(const Planning& planning, const std::string& word) {
  if (const auto set = planning.options.sizes.find(word); set != planning.options.sizes.end()) {
    return static_cast<double>(set->second);
  }
  if (const auto set = planning.options.numbers.find(word); set != planning.options.numbers.end()) {
    return set->second;
  }
  if (const auto known = planning.numbers.find(word); known != planning.numbers.end()) {
    return known->second;
  }
  return planning.options.config ? planning.options.config(word) : std::nullopt;
}

Result<void> compute_sizes(const Planning& planning, const Axes& axes, Sizes& known,
                           Origins& origins) {
  for (const std::string& word : words_of(axes)) {
    const auto expressions = planning.map.parts().sizes.find(word);
    if (known.contains(word) || expressions == planning.map.parts().sizes.end()) continue;
    const auto found = compute(planning, word, expressions->second, [&](const std::string& name) {
      const auto size = known.find(name);
      return size == known.end() ? number_of(planning, name)
                                 : std::optional(static_cast<double>(size->second));
    });
    if (!found) continue;
    const auto size = as_size(found->number);
    if (!size) return no_size(word, found->number, found->origin);
    known.emplace(word, *size);
    origins.emplace(word, found->origin);
  }
  return {};
}

std::string origins_of(const Axes& axes, const Sizes& known, const Origins& origins) {
  std::string text;
  std::set<std::string, std::less<>> told;
  for (const std::string& word : words_of(axes)) {
    const auto size = known.find(word);
    const auto origin = origins.find(word);
    if (size == known.end() || origin == origins.end() || !told.insert(word).second) continue;
    text += (text.empty() ? "; " : ", ") + word + " is " + std::to_string(size->second) + ' ' +
            origin->second;
  }
  return text;
}

}  // namespace espalier
