#include "cli/terminal/values.h"

#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "cli/terminal/text.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/format/access.h"

namespace espalier::cli {
namespace {

std::string hex(ByteSpan bytes) {
  std::string out;
  for (const std::byte byte : bytes) {
    fmt::format_to(std::back_inserter(out), "{:02x}", std::to_integer<unsigned>(byte));
  }
  return out;
}

std::string complex_text(std::complex<double> value, bool narrow) {
  const auto part = [&](double x) {
    return narrow ? format_real(static_cast<float>(x)) : format_real(x);
  };
  const std::string imaginary = part(value.imag());
  const bool signed_already = imaginary.front() == '-';
  return "(" + part(value.real()) + (signed_already ? "" : "+") + imaginary + "j)";
}

void write_complex(JsonWriter& json, std::complex<double> value, bool narrow) {
  json.begin_array();
  for (const double part : {value.real(), value.imag()}) {
    narrow ? json.value(static_cast<float>(part)) : json.value(part);
  }
  json.end_array();
}

// Whether every value of the dtype is an f32, so the digits of an f32 identify it.
bool fits_f32(DType dtype) { return dtype != DType::kF64 && dtype != DType::kC128; }

std::string quoted(std::string_view text) { return "\"" + escaped(text) + "\""; }

void write_value(JsonWriter& json, const NodeRef& node) {
  switch (node.kind()) {
    case Kind::kBool:
      return json.value(*node.as_bool());
    case Kind::kInt64:
      return json.value(*node.as_int64());
    case Kind::kBigInt:
      return json.value(*node.as_bigint());
    case Kind::kFloat64:
      return json.value(*node.as_double());
    case Kind::kComplex128:
      return write_complex(json, *node.as_complex(), false);
    case Kind::kString:
      return json.value(*node.as_string());
    case Kind::kBytes:
      return json.value(hex(*node.as_bytes()));
    default:
      return json.null();
  }
}

}  // namespace

std::string scalar_text(const NodeRef& node, std::size_t max_bytes) {
  const auto cut = [&](std::size_t size) {
    return size > max_bytes ? fmt::format("... ({})", counted(size, "byte")) : std::string();
  };
  switch (node.kind()) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return *node.as_bool() ? "true" : "false";
    case Kind::kInt64:
      return std::to_string(*node.as_int64());
    case Kind::kBigInt:
      return node.as_bigint()->to_decimal();
    case Kind::kFloat64:
      return format_real(*node.as_double());
    case Kind::kComplex128:
      return complex_text(*node.as_complex(), false);
    case Kind::kString: {
      const std::string_view text = *node.as_string();
      std::size_t end = std::min(text.size(), max_bytes);
      // Don't cut a character in half.
      while (end < text.size() && end > 0 &&
             (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) {
        --end;
      }
      return quoted(text.substr(0, end)) + cut(text.size());
    }
    case Kind::kBytes: {
      const ByteSpan bytes = *node.as_bytes();
      return "0x" + hex(bytes.first(std::min(bytes.size(), max_bytes))) + cut(bytes.size());
    }
    default:
      return "";
  }
}

std::string dtype_text(const TensorRef& tensor) {
  std::string text(dtype_name(tensor.dtype()));
  if (tensor.dtype() != DType::kOpaque) return text;
  const BlockType block = tensor.block();
  return fmt::format("{}({}, {} in {} B)", text, escaped(shortened(block.name, kMaxMentionBytes)),
                     block.elements, block.bytes);
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

std::string label_text(const NodeRef& node) {
  const auto label = node.label();
  return label ? " " + quoted(*label) : "";
}

std::string axis_names_text(const TensorRef& tensor, std::size_t max_bytes) {
  std::string text;
  for (const std::string_view name : tensor.axis_names()) {
    if (text.size() > max_bytes) return text + ", ...";
    if (!text.empty()) text += ", ";
    text += name.empty() ? "-" : escaped(shortened(name, max_bytes));
  }
  return text;
}

std::string totals_text(const Totals& totals) {
  return counted(totals.tensors, "tensor") + ", " + format_size(totals.bytes);
}

std::string node_text(const NodeRef& node, SubtreeTotals& totals, Colors colors) {
  constexpr std::size_t kMaxBytes = 64;
  std::string text = std::string(kind_name(node.kind())) + label_text(node);
  if (const auto tensor = node.tensor()) {
    return text + " " + colors.paint(Style::kType, dtype_text(*tensor)) + " " +
           shape_text(tensor->shape());
  }
  if (!is_container(node.kind())) {
    return node.kind() == Kind::kNull ? text : text + " " + scalar_text(node, kMaxBytes);
  }
  if (node.size() == 0) return text + " (empty)";
  const Totals below = totals.of(node);
  return below.tensors == 0 ? text : text + " (" + totals_text(below) + ")";
}

void append_element(std::string& out, DType dtype, std::int64_t value) {
  if (dtype == DType::kBool) {
    out += value != 0 ? "true" : "false";
  } else {
    fmt::format_to(std::back_inserter(out), "{}", value);
  }
}

void append_element(std::string& out, DType, std::uint64_t value) {
  fmt::format_to(std::back_inserter(out), "{}", value);
}

void append_element(std::string& out, DType dtype, double value) {
  out += fits_f32(dtype) ? format_real(static_cast<float>(value)) : format_real(value);
}

void append_element(std::string& out, DType dtype, std::complex<double> value) {
  out += complex_text(value, fits_f32(dtype));
}

void write_element(JsonWriter& json, DType dtype, std::int64_t value) {
  dtype == DType::kBool ? json.value(value != 0) : json.value(value);
}

void write_element(JsonWriter& json, DType, std::uint64_t value) { json.value(value); }

void write_element(JsonWriter& json, DType dtype, double value) {
  fits_f32(dtype) ? json.value(static_cast<float>(value)) : json.value(value);
}

void write_element(JsonWriter& json, DType dtype, std::complex<double> value) {
  write_complex(json, value, fits_f32(dtype));
}

bool LongNames::first(const TensorRef& tensor) {
  constexpr std::size_t kLong = 1024;
  std::size_t size = tensor.dtype() == DType::kOpaque ? tensor.block().name.size() : 0;
  for (const std::string_view name : tensor.axis_names()) size += name.size();
  return size <= kLong || written_.insert(tensor.number()).second;
}

void write_node_members(JsonWriter& json, std::string_view path, const NodeRef& node,
                        LongNames& names) {
  json.member("path", path);
  json.member("kind", kind_name(node.kind()));
  if (const auto label = node.label()) json.member("label", *label);
  if (const auto tensor = node.tensor()) {
    write_tensor_members(json, *tensor, names);
  } else if (is_container(node.kind())) {
    json.member("children", node.size());
  } else {
    json.key("value");
    write_value(json, node);
  }
}

void write_tensor_members(JsonWriter& json, const TensorRef& tensor, LongNames& names) {
  const bool with_names = names.first(tensor);
  json.member("dtype", dtype_name(tensor.dtype()));
  if (tensor.dtype() == DType::kOpaque) {
    const BlockType block = tensor.block();
    json.key("block");
    json.begin_object();
    json.key("name");
    with_names ? json.value(block.name) : json.null();
    json.member("elements", block.elements);
    json.member("bytes", block.bytes);
    json.end_object();
  }
  json.key("shape");
  json.begin_array();
  for (const std::uint64_t length : tensor.shape()) json.value(length);
  json.end_array();
  if (const auto axes = tensor.axis_names(); !axes.empty()) {
    json.key("axis_names");
    if (with_names) {
      json.begin_array();
      for (const std::string_view name : axes) json.value(name);
      json.end_array();
    } else {
      json.null();
    }
  }
  json.member("elements", tensor.elements());
  json.member("bytes", tensor.bytes());
  json.member("tensor", tensor.number());
}

void write_totals(JsonWriter& json, const Totals& totals) {
  json.key("totals");
  json.begin_object();
  json.member("tensors", totals.tensors);
  json.member("elements", totals.elements);
  json.member("bytes", totals.bytes);
  json.end_object();
}

void write_error_members(JsonWriter& json, const Error& error) {
  json.member("code", to_string(error.code));
  json.member("message", std::string_view(error.message));
  json.key("offset");
  error.offset == Error::kNoOffset ? json.null() : json.value(error.offset);
  json.key("path");
  error.path.empty() ? json.null() : json.value(std::string_view(error.path));
  // Of a checkpoint in several files, the one that the error is about.
  if (!error.file.empty()) json.member("file", std::string_view(error.file));
}

}  // namespace espalier::cli
