#include "espalier/report/health.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "espalier/base/json_text.h"
#include "espalier/base/real_text.h"

namespace espalier {
namespace {

// Fewer elements are equal, zero or the same as others by chance.
constexpr std::uint64_t kFewElements = 16;
constexpr std::uint64_t kFewBytes = 64;  // of opaque blocks
// Tensors of a kind that say what is usual.
constexpr std::size_t kSiblings = 4;
// Tensors with the same last segment that say it, where a kind has too few.
constexpr std::size_t kNamesakes = 6;
// So many times the usual RMS, or so small a part of it, is out of range.
constexpr double kMatrixFactor = 100;
constexpr double kVectorFactor = 500;
constexpr double kNamesakeFactor = 10;  // times one of these
// The same if a kind is large, and so alike that this many times its spread, in powers of ten, is
// less than what one of it differs by.
constexpr std::size_t kManySiblings = 8;
constexpr double kTightFactor = 10;
constexpr double kTightGap = 8;
constexpr double kNormGap = 2;
constexpr double kLeastSpread = 0.02;
// An element of a matrix that has so many times the magnitude of all but a thousandth, and of the
// median; of a vector, of all but a tenth. Trained models have elements of a hundred deviations.
constexpr double kSpikeOfMost = 60;
constexpr double kSpikeOfMiddle = 200;
// Of a vector whose elements are alike, as random numbers are: nine of ten are at most so many
// times the middle.
constexpr double kMostOfEven = 3;
// The share of a kind, of at least kSiblings, in which something is no exception.
constexpr double kMostOfKind = 0.75;
// The share of a kind that may be out of range, or of another dtype.
constexpr std::size_t kFewOfRange = 10;
constexpr std::size_t kFewOfDType = 4;
// Of narrow types, the share of elements at the limit that scaling does not explain.
constexpr double kManySaturated = 0.01;
// Pairs of equal tensors under the same two subtrees that are told as one.
constexpr std::size_t kCopiedTree = 3;

std::string counted(std::uint64_t number) {
  std::string digits;
  append_number(digits, number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

// "3 of 400 elements are", or "is" of a single element.
std::string share_text(std::uint64_t some, const TensorSurvey& survey, const char* one,
                       const char* many) {
  const std::string verb = some == 1 ? one : many;
  return survey.elements == 1
             ? verb
             : counted(some) + " of " + counted(survey.elements) + " elements " + verb;
}

// Three digits.
std::string rough(double value) {
  if (value == 0) return "0";
  if (!std::isfinite(value)) return value > 0 ? "infinite" : "-infinite";
  auto power = static_cast<int>(std::floor(std::log10(std::abs(value)))) - 2;
  // In two steps: a tenth of the smallest numbers is none.
  const double digits = std::abs(value) / std::pow(10, power / 2) / std::pow(10, power - power / 2);
  std::string text = value < 0 ? "-" : "";
  append_number(text, static_cast<std::int64_t>(std::round(digits)));
  text += 'e';
  append_number(text, power);
  // The double that is nearest to these digits is printed with no others.
  text = print_real(parse_real(text.c_str()));
  if (text.size() > 2 && text.compare(text.size() - 2, 2, ".0") == 0) text.resize(text.size() - 2);
  return text;
}

// Whole numbers, such as steps, exactly; others to three digits.
std::string number_text(double value) {
  if (!(std::abs(value) < 0x1p53) || value != std::floor(value)) return rough(value);
  std::string text;
  append_number(text, static_cast<std::int64_t>(value));
  return text;
}
std::string number_text(const Number& number) {
  if (const double* real = std::get_if<double>(&number)) return number_text(*real);
  std::string text;
  if (const auto* negative = std::get_if<std::int64_t>(&number)) append_number(text, *negative);
  if (const auto* positive = std::get_if<std::uint64_t>(&number)) append_number(text, *positive);
  return text;
}

// "[0, 5]": the index of an element, in row-major order.
std::string index_text(std::uint64_t at, const std::vector<std::uint64_t>& shape) {
  std::vector<std::uint64_t> index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 0) return {};
    index[axis] = at % shape[axis];
    at /= shape[axis];
  }
  std::string text = "[";
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    if (axis > 0) text += ", ";
    append_number(text, index[axis]);
  }
  return text + "]";
}

bool is_floating(const TensorSurvey& survey) {
  return dtype_is_floating(survey.dtype) && survey.dtype != DType::kF8E8M0FNU;
}

// 0 where something is seen and -inf where not. A single infinite one among zeros is
// an overflow.
bool is_mask(const TensorSurvey& survey) {
  const Summary& summary = survey.summary;
  return summary.nans == 0 && !survey.is_infinite_above && summary.zeros > 0 &&
         summary.zeros == summary.finite && summary.infinities > 1;
}

bool is_trained(NameRole role) {
  return role == NameRole::kWeight || role == NameRole::kEmbedding || role == NameRole::kAdapterOut;
}

// ", the first at [0, 5]", unless there is one element.
std::string first_text(std::optional<std::uint64_t> at, const TensorSurvey& survey) {
  if (survey.elements == 1) return {};
  return ", the first at " + index_text(at.value_or(0), survey.shape);
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Keeps the beginning and the end of a long path, cut between characters.
std::string shortened(std::string_view path) {
  constexpr std::string_view kCut = "[...]";
  if (path.size() <= HealthCheck::kMostPathBytes) return std::string(path);
  const auto continues = [&](std::size_t at) { return (path[at] & '\xc0') == '\x80'; };
  std::size_t head = (HealthCheck::kMostPathBytes - kCut.size()) / 2;
  std::size_t tail = path.size() - head;
  while (head > 0 && continues(head)) --head;
  while (tail < path.size() && continues(tail)) ++tail;
  std::string text(path.substr(0, head));
  text += kCut;
  text += path.substr(tail);
  return text;
}

bool has_scale(std::string_view name) { return name.find("scale") != std::string_view::npos; }

// The path without its last segment.
std::string_view container_of(std::string_view path) {
  return path.substr(0, path.size() - last_segment(path).size());
}

// What two paths have before the segments at their ends that are the same.
std::pair<std::string, std::string> differing_heads(std::string_view a, std::string_view b) {
  const auto begins_segment = [](std::string_view path, std::size_t from_end) {
    const std::size_t at = path.size() - from_end;
    return at == 0 || path[at - 1] == '/' || path[at - 1] == '.';
  };
  std::size_t same = 0;
  for (std::size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    if (a[a.size() - i] != b[b.size() - i]) break;
    if (begins_segment(a, i) && begins_segment(b, i)) same = i;
  }
  const auto head = [&](std::string_view path) {
    const std::size_t end = path.size() - same;
    return std::string(path.substr(0, same == 0 || end == 0 ? end : end - 1));
  };
  return {head(a), head(b)};
}

}  // namespace

std::string_view health_rule_name(HealthRule rule) {
  static constexpr std::array<std::string_view, kHealthRules> kNames = {
      "unreadable",       "nan",          "infinite",     "negative_squares", "all_zero",
      "constant",         "dead_rows",    "dead_columns", "outlier_rows",     "outlier_columns",
      "outlier_elements", "norm",         "saturated",    "equal_tensors",    "mixed_dtypes",
      "zero_moments",     "unequal_steps"};
  const auto number = static_cast<std::size_t>(rule);
  return number < kNames.size() ? kNames[number] : "";
}

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::kFault:
      return "fault";
    case Severity::kWarning:
      return "warning";
    default:
      return "note";
  }
}

struct HealthCheck::Findings {
  std::vector<Finding> all;

  void add(HealthRule rule, Severity severity, std::string path, std::string text,
           std::optional<std::uint64_t> at = std::nullopt, std::string other = {}) {
    all.push_back({rule, severity, std::move(path), std::move(other), std::move(text), at});
  }
};

void HealthCheck::add(std::string_view path, TensorSurvey survey) {
  Tensor tensor = {shortened(path), {}, role_of(path), std::move(survey)};
  tensor.kind = kind_of(tensor.path);
  const Summary& summary = tensor.survey.summary;
  if (tensor.role == NameRole::kCounter && tensor.survey.elements == 1 && summary.min) {
    counters_.push_back({tensor.path, tensor.kind, to_double(*summary.min)});
  }
  if (has_scale(last_segment(tensor.path))) scaled_.insert(std::string(container_of(tensor.path)));
  tensors_.push_back(std::move(tensor));
}

void HealthCheck::add_unreadable(std::string_view path, std::string reason) {
  unreadable_.push_back({shortened(path), std::move(reason)});
}

void HealthCheck::add_number(std::string_view path, double value) {
  if (std::isnan(value)) return nan_numbers_.push_back(shortened(path));
  // Before the whole path is looked at: a hostile file has many numbers with long ones.
  if (!is_counter_name(last_segment(path)) || role_of(path) != NameRole::kCounter) return;
  std::string kept = shortened(path);
  std::string kind = kind_of(kept);
  counters_.push_back({std::move(kept), std::move(kind), value});
}

std::vector<Finding> HealthCheck::findings() const {
  Findings found;
  for (const auto& [path, reason] : unreadable_) {
    found.add(HealthRule::kUnreadable, Severity::kFault, path, "cannot be read: " + reason);
  }
  for (const std::string& path : nan_numbers_) {
    found.add(HealthRule::kNan, Severity::kWarning, path, "is NaN");
  }
  Kinds kinds;
  std::map<std::pair<std::string_view, std::size_t>, Group> namesakes;
  for (const Tensor& tensor : tensors_) {
    look_at(tensor, found);
    kinds[tensor.kind].push_back(&tensor);
    namesakes[{last_segment(tensor.path), tensor.survey.view.rank}].push_back(&tensor);
  }
  for (const auto& [kind, group] : kinds) {
    compare_dtypes(group, found);
    find_zero_vectors(group, found);
    compare_norms(group, 1, found);
  }
  for (const auto& [name, group] : namesakes) {
    if (group.size() < kNamesakes) continue;
    Findings all;
    compare_norms(group, kNamesakeFactor, all);
    for (Finding& finding : all.all) {
      // The others were compared with their kind.
      if (kinds.at(kind_of(finding.path)).size() < kSiblings) {
        found.all.push_back(std::move(finding));
      }
    }
  }
  find_equal(found);
  find_zero_moments(found);
  compare_counters(found);
  excuse_whole_kinds(kinds, found);
  std::stable_sort(found.all.begin(), found.all.end(), [](const Finding& a, const Finding& b) {
    return std::tie(b.severity, a.rule) < std::tie(a.severity, b.rule);
  });
  return std::move(found.all);
}

void HealthCheck::look_at(const Tensor& tensor, Findings& found) const {
  const auto& [path, kind, role, survey] = tensor;
  const Summary& summary = survey.summary;
  if (summary.nans > 0) {
    found.add(HealthRule::kNan, Severity::kFault, path,
              share_text(summary.nans, survey, "is", "are") + " NaN" +
                  first_text(survey.first_nan, survey),
              survey.first_nan);
  }
  if (summary.infinities > 0 && !is_mask(survey)) {
    found.add(HealthRule::kInfinite, Severity::kFault, path,
              share_text(summary.infinities, survey, "is", "are") + " infinite" +
                  first_text(survey.first_infinite, survey),
              survey.first_infinite);
  }
  const bool is_variance =
      role == NameRole::kRunning && last_segment(path).find("var") != std::string_view::npos;
  if ((role == NameRole::kSecondMoment || is_variance) && dtype_is_floating(survey.dtype) &&
      summary.min && to_double(*summary.min) < 0) {
    found.add(
        HealthRule::kNegativeSquares, Severity::kFault, path,
        "an average of squares has negative elements, the least is " + number_text(*summary.min));
  }
  if (!is_floating(survey)) return;
  const bool is_large = survey.view.rank >= 2 && survey.elements >= kFewElements;
  if (is_large && survey.is_zero()) {
    if (role == NameRole::kAdapterOut) {
      found.add(HealthRule::kAllZero, Severity::kNote, path,
                "all " + counted(survey.elements) +
                    " elements are zero, as in an adapter that was not trained");
    } else if (is_trained(role)) {
      found.add(HealthRule::kAllZero, Severity::kWarning, path,
                "all " + counted(survey.elements) + " elements are zero");
    }
    return;
  }
  if (is_large && is_trained(role) && survey.is_constant()) {
    found.add(HealthRule::kConstant, Severity::kWarning, path,
              "all " + counted(survey.elements) + " elements are " + number_text(*summary.min));
    return;
  }
  // With a scale for each group, the largest of each has the largest magnitude.
  const bool is_scaled = dtype_bits(survey.dtype) <= 8 && scaled_.count(container_of(path)) > 0;
  if (survey.saturated > 0 && is_trained(role) && !is_scaled) {
    const double share =
        static_cast<double>(survey.saturated) / static_cast<double>(survey.elements);
    if (dtype_bits(survey.dtype) > 8 || (share >= kManySaturated && dtype_bits(survey.dtype) > 4)) {
      found.add(HealthRule::kSaturated, Severity::kWarning, path,
                share_text(survey.saturated, survey, "has", "have") + " the largest magnitude of " +
                    std::string(dtype_name(survey.dtype)) + ": larger ones may have been cut off");
    }
  }
  if (is_trained(role) && !has_spike(tensor, found)) look_at_channels(tensor, found);
}

void HealthCheck::look_at_channels(const Tensor& tensor, Findings& found) {
  const std::string& path = tensor.path;
  const TensorSurvey& survey = tensor.survey;
  if (survey.elements < kFewElements) return;
  const bool is_embedding = tensor.role == NameRole::kEmbedding;
  const auto dead = [&](const Channels& channels, HealthRule rule, std::string_view name) {
    // A row for padding is zero on purpose.
    const bool is_of_words = is_vocabulary(path) && rule == HealthRule::kDeadRows;
    if (channels.dead == 0 || channels.dead == channels.count ||
        (is_of_words && channels.dead == 1)) {
      return;
    }
    // A vocabulary is filled up at its end.
    const bool is_padding = is_of_words && channels.dead == channels.dead_at_end;
    found.add(rule, channels.dead == 1 || is_padding ? Severity::kNote : Severity::kWarning, path,
              counted(channels.dead) + " of " + counted(channels.count) + " " + std::string(name) +
                  (channels.dead == 1 ? "s is zero: number " : "s are zero, the first is number ") +
                  counted(channels.first_dead),
              channels.first_dead);
  };
  const auto outliers = [&](const Channels& channels, HealthRule rule, std::string_view name) {
    if (channels.outliers.empty()) return;
    const Channels::Outlier& first = channels.outliers.front();
    std::string text = std::string(name) + " " + counted(first.index) + " has " +
                       rough(first.ratio) + " times the norm of the median " + std::string(name);
    if (channels.outliers.size() > 1) {
      text += ", and " + counted(channels.outliers.size() - 1) + " more stand out";
    }
    found.add(rule, Severity::kWarning, path, std::move(text), first.index);
  };
  dead(survey.rows, HealthRule::kDeadRows, "row");
  dead(survey.columns, HealthRule::kDeadColumns, "column");
  if (!is_embedding) outliers(survey.rows, HealthRule::kOutlierRows, "row");
  outliers(survey.columns, HealthRule::kOutlierColumns, "column");
}

// A few elements that are far beyond all others; rows, columns and norms then stand out by them.
bool HealthCheck::has_spike(const Tensor& tensor, Findings& found) {
  const TensorSurvey& survey = tensor.survey;
  if (survey.elements < kFewElements || !survey.summary.min || !survey.summary.max) return false;
  const double largest =
      std::max(std::abs(to_double(*survey.summary.min)), std::abs(to_double(*survey.summary.max)));
  const bool is_matrix = survey.view.rank >= 2;
  // Most elements of a sparse vector say nothing of the others.
  const bool is_even = survey.median_size >= survey.size_90 / kMostOfEven;
  if (!is_matrix && !is_even) return false;
  const double usual =
      is_matrix ? std::max(survey.size_999 * kSpikeOfMost, survey.median_size * kSpikeOfMiddle)
                : survey.size_90 * kSpikeOfMiddle;
  if (!(usual > 0) || largest < usual) return false;
  found.add(HealthRule::kOutlierElements, Severity::kWarning, tensor.path,
            "the largest magnitude is " + rough(largest) + ", and " +
                (is_matrix ? "999 of 1,000 are at most " + rough(survey.size_999)
                           : "nine of ten are at most " + rough(survey.size_90)));
  return true;
}

void HealthCheck::compare_norms(const Group& group, double factor, Findings& found) {
  if (group.size() < kSiblings) return;
  std::vector<std::pair<const Tensor*, double>> sizes;
  std::vector<double> logarithms;
  for (const Tensor* tensor : group) {
    const TensorSurvey& survey = tensor->survey;
    // Numbers of narrow types have scales of their own; a constant is a finding already.
    const bool is_comparable = is_trained(tensor->role) && is_floating(survey) &&
                               dtype_bits(survey.dtype) > 8 &&
                               !(survey.view.rank >= 2 && survey.is_constant());
    if (!is_comparable || !(survey.rms > 0) || !std::isfinite(survey.rms)) continue;
    sizes.emplace_back(tensor, std::log10(survey.rms));
    logarithms.push_back(sizes.back().second);
  }
  if (sizes.size() < kSiblings) return;
  const double median = median_of(logarithms);
  std::vector<const Tensor*> outside;
  double least = median;
  double greatest = median;
  // What is so far away, if that is few and all others are nearer by a factor.
  const auto separate = [&](double bound, double gap) {
    outside.clear();
    least = greatest = median;
    double spread = kLeastSpread;
    double nearest = 0;
    for (const auto& [tensor, size] : sizes) {
      const double distance = std::abs(size - median);
      if (distance >= bound) {
        nearest = outside.empty() ? distance : std::min(nearest, distance);
        outside.push_back(tensor);
      } else {
        spread = std::max(spread, distance);
        least = std::min(least, size);
        greatest = std::max(greatest, size);
      }
    }
    const bool are_few = outside.size() <= std::max<std::size_t>(1, sizes.size() / kFewOfRange);
    if (!are_few || nearest < gap * spread) outside.clear();
  };
  const bool is_matrix = group.front()->survey.view.rank >= 2;
  separate(std::log10(factor * (is_matrix ? kMatrixFactor : kVectorFactor)), kNormGap);
  if (outside.empty() && factor == 1 && sizes.size() >= kManySiblings) {
    separate(std::log10(kTightFactor), kTightGap);
  }
  for (const Tensor* tensor : outside) {
    found.add(
        HealthRule::kNormOutOfRange, Severity::kWarning, tensor->path,
        "its root mean square is " + rough(tensor->survey.rms) + ", and that of the " +
            counted(sizes.size() - outside.size()) + " others of its kind is " +
            (rough(std::pow(10, least)) == rough(std::pow(10, greatest))
                 ? rough(std::pow(10, least))
                 : "from " + rough(std::pow(10, least)) + " to " + rough(std::pow(10, greatest))));
  }
}

void HealthCheck::compare_dtypes(const Group& group, Findings& found) {
  if (group.size() < kSiblings) return;
  std::map<DType, std::size_t> counts;
  for (const Tensor* tensor : group) ++counts[tensor->survey.dtype];
  const auto usual =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (counts.size() == 1 || group.size() - usual->second > group.size() / kFewOfDType) return;
  for (const Tensor* tensor : group) {
    if (tensor->survey.dtype == usual->first) continue;
    found.add(HealthRule::kMixedDTypes, Severity::kNote, tensor->path,
              "is " + std::string(dtype_name(tensor->survey.dtype)) + ", and " +
                  counted(usual->second) + " others of its kind are " +
                  std::string(dtype_name(usual->first)));
  }
}

// A vector of zeros is how many a bias begins; one of many is not.
void HealthCheck::find_zero_vectors(const Group& group, Findings& found) {
  Group zeros;
  for (const Tensor* tensor : group) {
    const bool is_vector = tensor->survey.view.rank == 1 && is_floating(tensor->survey);
    if (is_vector && is_trained(tensor->role) && tensor->survey.is_zero()) zeros.push_back(tensor);
  }
  if (group.size() < kSiblings ||
      zeros.size() > std::max<std::size_t>(1, group.size() / kFewOfRange))
    return;
  for (const Tensor* tensor : zeros) {
    found.add(HealthRule::kAllZero, Severity::kWarning, tensor->path,
              "all " + counted(tensor->survey.elements) + " elements are zero, and those of the " +
                  counted(group.size() - zeros.size()) + " others of its kind are not");
  }
}

void HealthCheck::find_equal(Findings& found) const {
  using Identity = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, DType>;
  std::map<Identity, Group> groups;
  std::map<std::string_view, std::size_t> of_kind;
  for (const Tensor& tensor : tensors_) {
    ++of_kind[tensor.kind];
    const TensorSurvey& survey = tensor.survey;
    const bool is_opaque = survey.dtype == DType::kOpaque;
    if ((is_opaque ? survey.bytes < kFewBytes
                   : survey.elements < kFewElements || survey.is_constant() ||
                         survey.summary.finite == 0) ||
        tensor.role == NameRole::kConstant || is_moment(tensor.role)) {
      continue;
    }
    groups[{survey.hash.low, survey.hash.high, survey.bytes, survey.dtype}].push_back(&tensor);
  }
  std::map<std::pair<std::string, std::string>, Group> pairs;  // by what their paths do not share
  std::vector<std::pair<const Tensor*, const Tensor*>> equal;
  for (const auto& [identity, group] : groups) {
    const Tensor& first = *group.front();
    const bool is_one_kind = std::all_of(
        group.begin(), group.end(), [&](const Tensor* one) { return one->kind == first.kind; });
    // Every layer has the same: a table.
    if (is_one_kind && group.size() > 2 && group.size() == of_kind.at(first.kind)) continue;
    for (std::size_t i = 1; i < group.size(); ++i) {
      equal.emplace_back(&first, group[i]);
      pairs[differing_heads(first.path, group[i]->path)].push_back(&first);
    }
  }
  std::sort(equal.begin(), equal.end());  // the order of the tensors
  for (const auto& [heads, group] : pairs) {
    if (group.size() < kCopiedTree) continue;
    // Two layers of one kind are copies by a mistake; a model and its average are not.
    const bool are_layers = kind_of(heads.first) == kind_of(heads.second);
    found.add(HealthRule::kEqualTensors, are_layers ? Severity::kWarning : Severity::kNote,
              heads.first,
              counted(group.size()) + " tensors have the same bytes as those of the same names in",
              std::nullopt, heads.second);
  }
  for (const auto& [a, b] : equal) {
    if (pairs.at(differing_heads(a->path, b->path)).size() >= kCopiedTree) continue;
    const bool is_tie = a->role == NameRole::kEmbedding || b->role == NameRole::kEmbedding;
    found.add(HealthRule::kEqualTensors, is_tie ? Severity::kNote : Severity::kWarning, b->path,
              is_tie ? "may be tied, and is stored twice: it has the same bytes as"
                     : "has the same bytes as",
              std::nullopt, a->path);
  }
}

void HealthCheck::find_zero_moments(Findings& found) const {
  std::size_t moments = 0;
  Group zeros;
  for (const Tensor& tensor : tensors_) {
    if (!is_moment(tensor.role) || tensor.survey.elements < 2) continue;
    ++moments;
    if (tensor.survey.is_zero()) zeros.push_back(&tensor);
  }
  if (zeros.empty()) return;
  if (zeros.size() == moments) {
    found.add(HealthRule::kZeroMoments, Severity::kNote, zeros.front()->path,
              "all " + counted(moments) + " moments are zero: the optimizer has made no step");
    return;
  }
  for (const Tensor* tensor : zeros) {
    found.add(HealthRule::kZeroMoments, Severity::kWarning, tensor->path,
              "all " + counted(tensor->survey.elements) +
                  " elements are zero, and other moments are not");
  }
}

void HealthCheck::compare_counters(Findings& found) const {
  std::map<std::string_view, std::vector<const Counter*>> kinds;
  for (const Counter& counter : counters_) kinds[counter.kind].push_back(&counter);
  for (const auto& [kind, group] : kinds) {
    std::map<double, std::vector<const Counter*>> values;
    for (const Counter* counter : group) {
      if (!std::isnan(counter->value)) values[counter->value].push_back(counter);
    }
    if (values.size() < 2) continue;
    const auto& usual =
        std::max_element(values.begin(), values.end(), [](const auto& a, const auto& b) {
          return a.second.size() < b.second.size();
        })->second;
    const auto& other =
        usual == values.begin()->second ? values.rbegin()->second : values.begin()->second;
    // Several counts are those of layers that were added to the training one after the other.
    std::string text = "is " + number_text(other.front()->value) + ", and " +
                       (usual.size() == 1 ? "another of its kind is "
                                          : counted(usual.size()) + " others of its kind are ") +
                       number_text(usual.front()->value);
    if (values.size() > 2) text += " (" + counted(values.size()) + " different counts)";
    found.add(HealthRule::kUnequalSteps, values.size() > 2 ? Severity::kNote : Severity::kWarning,
              other.front()->path, text + "; see", std::nullopt, usual.front()->path);
  }
}

// What most of a kind has is how the model was made: pruned, or layers that begin as zeros.
void HealthCheck::excuse_whole_kinds(const Kinds& kinds, Findings& found) {
  const auto is_of_kind = [](HealthRule rule) {
    return rule == HealthRule::kAllZero || rule == HealthRule::kConstant ||
           rule == HealthRule::kDeadRows || rule == HealthRule::kDeadColumns ||
           rule == HealthRule::kOutlierRows || rule == HealthRule::kOutlierColumns;
  };
  std::map<std::pair<HealthRule, std::string>, std::size_t> counts;
  for (const Finding& finding : found.all) {
    if (is_of_kind(finding.rule)) ++counts[{finding.rule, kind_of(finding.path)}];
  }
  for (Finding& finding : found.all) {
    if (!is_of_kind(finding.rule)) continue;
    const std::string kind = kind_of(finding.path);
    const std::size_t of_kind = kinds.at(kind).size();
    const std::size_t count = counts.at({finding.rule, kind});
    if (of_kind < kSiblings ||
        static_cast<double>(count) < kMostOfKind * static_cast<double>(of_kind)) {
      continue;
    }
    finding.severity = Severity::kNote;
    finding.text += ", as in " + counted(count) + " of the " + counted(of_kind) + " of its kind";
  }
}

}  // namespace espalier
