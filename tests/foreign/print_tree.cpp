// Prints a checkpoint of any format as JSON, in the words in which the scripts of the other folders
// describe what the formats' own packages load. Usage: print_tree FILE...
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "espalier/base/json_text.h"
#include "espalier/checkpoint_file.h"
#include "espalier/format/format_info.h"
#include "espalier/notes.h"

namespace {

using namespace espalier;

std::string hex(ByteSpan bytes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kHex[std::to_integer<unsigned>(byte) >> 4];
    text += kHex[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

// As Python's repr() prints a float.
std::string real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[40];
  const double size = std::fabs(value);
  const bool is_scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto form = is_scientific ? std::chars_format::scientific : std::chars_format::fixed;
  std::string printed(text, std::to_chars(text, text + sizeof text, value, form).ptr);
  if (!is_scientific && printed.find('.') == std::string::npos) printed += ".0";
  return printed;
}

class Printer {
 public:
  explicit Printer(const CheckpointFile& file) : file_(file) {}

  bool ok() const { return ok_; }
  const std::string& text() const { return text_; }

  void node(const NodeRef& node) {
    text_ += "[\"";
    text_ += kind_name(node.kind());
    text_ += "\",";
    if (const auto label = node.label()) {
      append_json_string(text_, *label);
    } else {
      text_ += "null";
    }
    text_ += ',';
    value(node);
    text_ += ']';
  }

 private:
  void quoted(const std::string& text) { append_json_string(text_, text); }

  void value(const NodeRef& node) {
    switch (node.kind()) {
      case Kind::kNull:
        text_ += "null";
        break;
      case Kind::kBool:
        text_ += *node.as_bool() ? "true" : "false";
        break;
      case Kind::kInt64:
        quoted(std::to_string(*node.as_int64()));
        break;
      case Kind::kBigInt:
        quoted(node.as_bigint()->to_decimal());
        break;
      case Kind::kFloat64:
        quoted(real(*node.as_double()));
        break;
      case Kind::kComplex128:
        text_ += '[';
        quoted(real(node.as_complex()->real()));
        text_ += ',';
        quoted(real(node.as_complex()->imag()));
        text_ += ']';
        break;
      case Kind::kString:
        append_json_string(text_, *node.as_string());
        break;
      case Kind::kBytes:
        quoted(hex(*node.as_bytes()));
        break;
      case Kind::kTensor:
      case Kind::kPlaceholder:
        tensor(*node.tensor());
        break;
      default:
        children(node);
    }
  }

  void children(const NodeRef& node) {
    std::vector<std::string> printed;
    const bool is_keyed = node.kind() == Kind::kDict || node.kind() == Kind::kRecord;
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      const std::string before = std::exchange(text_, {});
      if (is_keyed) {
        const KeyView key = node.key(i);
        text_ += '[';
        if (key.is_int) {
          text_ += std::to_string(key.integer);
        } else {
          append_json_string(text_, key.text);
        }
        text_ += ',';
      }
      this->node(node.child(i));
      if (is_keyed) text_ += ']';
      printed.push_back(std::exchange(text_, before));
    }
    text_ += '[';
    for (std::size_t i = 0; i < printed.size(); ++i) {
      if (i > 0) text_ += ',';
      text_ += printed[i];
    }
    text_ += ']';
  }

  void tensor(const TensorRef& tensor) {
    text_ += '[';
    std::string dtype(dtype_name(tensor.dtype()));
    if (tensor.dtype() == DType::kOpaque) dtype.append(1, ' ').append(tensor.block().name);
    quoted(dtype);
    text_ += ',';
    append_json_array(text_, tensor.shape());
    if (tensor.is_placeholder()) {
      text_ += ",null,null]";
      return;
    }
    const auto view = file_.slice(tensor, {});
    if (!view) {
      std::fprintf(stderr, "%s\n", view.error().describe().c_str());
      ok_ = false;
      return;
    }
    const auto bytes = view->bytes();
    text_ += ",\"" + hex(bytes) + "\",";
    text_ += std::to_string(tensor.number());
    text_ += ']';
  }

  const CheckpointFile& file_;
  std::string text_;
  bool ok_ = true;
};

}  // namespace

int main(int argc, char** argv) {
  int failed = 0;
  for (int i = 1; i < argc; ++i) {
    const auto file = CheckpointFile::open(argv[i]);
    if (!file) {
      std::printf("{\"error\":\"%s\"}\n", std::string(to_string(file.error().code)).c_str());
      std::fprintf(stderr, "%s: %s\n", argv[i], file.error().describe().c_str());
      continue;
    }
    Printer state(*file);
    state.node(file->state());
    Printer metadata(*file);
    metadata.node(file->metadata());
    if (!state.ok() || !metadata.ok()) failed = 1;
    std::string notes;
    for (const Note& note : file->checkpoint().catalog().notes().listed()) {
      notes += notes.empty() ? "" : ",";
      notes += '[';
      append_json_string(notes, note.path);
      notes += ',';
      append_json_string(notes, note.message);
      notes += ']';
    }
    std::printf("{\"format\":\"%s\",\"state\":%s,\"metadata\":%s,\"notes\":[%s]}\n",
                std::string(file->checkpoint().catalog().format().name).c_str(),
                state.text().c_str(), metadata.text().c_str(), notes.c_str());
  }
  return failed;
}
