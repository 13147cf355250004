#include "espalier/map/rule.h"

#include <utility>

namespace espalier {
namespace {

std::string print(const Capture& capture) {
  std::string text = "{";
  const auto add_texts = [&] {
    for (std::size_t i = 0; i < capture.texts.size(); ++i) {
      if (i > 0) text += '|';
      text += capture.texts[i];
    }
  };
  switch (capture.kind) {
    case Capture::Kind::kInteger:
      if (capture.factor != 1) text += std::to_string(capture.factor) + '*';
      text += capture.word;
      if (!capture.low.empty()) text += '+' + capture.low;
      if (capture.shift != 0) text += '+' + std::to_string(capture.shift);
      break;
    case Capture::Kind::kChoice:
      text += capture.word + ':';
      add_texts();
      break;
    case Capture::Kind::kEither:
      text += '|';
      add_texts();
      break;
    case Capture::Kind::kText:
      text += capture.word + '*';
      break;
    case Capture::Kind::kPath:
      text += capture.word + "...";
      break;
    case Capture::Kind::kCopies:
      text += capture.word + '=';
      break;
  }
  return text + '}';
}

std::string print(const TensorTerm& tensor) {
  std::string text = tensor.is_looked_up ? "@" : "";
  for (std::size_t i = 0; i < tensor.names.size(); ++i) {
    const TensorName& name = tensor.names[i];
    if (i > 0) text += " = ";
    if (tensor.kind == TensorTerm::Kind::kTensor) {
      text += '`';
      for (const NamePattern::Item& item : name.pattern.items()) {
        text += item.capture ? print(*item.capture) : item.literal;
      }
      text += '`';
    } else {
      text += tensor.kind == TensorTerm::Kind::kZeros ? "zeros" : "pad";
    }
    if (name.is_optional) text += '?';
    if (name.axes) text += " [" + to_string(*name.axes) + ']';
  }
  if (tensor.as) text += " as " + std::string(dtype_name(*tensor.as));
  return text;
}

std::string print(const Part& part) {
  std::string text;
  for (std::size_t i = 0; i < part.terms.size(); ++i) {
    const Term& term = part.terms[i];
    if (i > 0) text += term.is_subtracted ? " - " : " + ";
    bool is_first = true;
    for (const TensorTerm& tensor : term.tensors) {
      if (!is_first) text += " * ";
      text += print(tensor);
      is_first = false;
    }
    for (const auto& [scalar, divides] : term.scalars) {
      if (!is_first || divides) text += divides ? " / " : " * ";
      text += to_string(scalar);
      is_first = false;
    }
  }
  return text;
}

std::string print_side(const std::vector<Part>& parts, bool drops) {
  if (drops) return "drop";
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += ", ";
    text += print(parts[i]);
  }
  return text;
}

}  // namespace

std::optional<PlainPart> as_plain(const Part& part) {
  PlainPart plain;
  for (const Term& term : part.terms) {
    if (term.tensors.size() > 1) return std::nullopt;
    if (!term.tensors.empty()) {
      // A number before the tensor is added after it: only a difference would change.
      if (plain.tensor != nullptr || !plain.steps.empty() || term.is_subtracted)
        return std::nullopt;
      plain.tensor = &term.tensors.front();
      for (const auto& [scalar, divides] : term.scalars) {
        plain.steps.push_back(
            {divides ? NumberStep::Kind::kDivide : NumberStep::Kind::kMultiply, scalar});
      }
      continue;
    }
    if (plain.tensor == nullptr || term.scalars.size() != 1 || term.scalars.front().second) {
      return std::nullopt;
    }
    plain.steps.push_back(
        {term.is_subtracted ? NumberStep::Kind::kSubtract : NumberStep::Kind::kAdd,
         term.scalars.front().first});
  }
  return plain.tensor != nullptr ? std::optional(std::move(plain)) : std::nullopt;
}

std::string canonical_text(const Rule& rule) {
  std::string text = rule.is_optional ? "? " : "";
  text += print_side(rule.left, rule.drops_left);
  switch (rule.direction) {
    case Rule::Direction::kBoth:
      text += " <-> ";
      break;
    case Rule::Direction::kLeftToRight:
      text += " -> ";
      break;
    case Rule::Direction::kRightToLeft:
      text += " <- ";
      break;
  }
  return text + print_side(rule.right, rule.drops_right);
}

}  // namespace espalier
