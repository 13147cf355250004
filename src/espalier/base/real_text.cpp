#include "espalier/base/real_text.h"

#include <locale.h>
#include <stdlib.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include <utility>

#include <rapidjson/writer.h>

namespace espalier {
namespace {

// Not rapidjson::StringBuffer: that computes with a null pointer while it is empty.
struct TextStream {
  using Ch = char;
  std::string text = {};

  void Put(char c) { text += c; }
  void Flush() {}
};

}  // namespace

double parse_real(const char* digits) {
#ifdef __EMSCRIPTEN__
  return strtod(digits, nullptr);  // knows one locale
#else
  static const locale_t kPlain = newlocale(LC_ALL_MASK, "C", nullptr);
  return strtod_l(digits, nullptr, kPlain);
#endif
}

// Not std::to_chars(): the library of Emscripten has it for integers alone.
std::string print_real(double value) {
  TextStream stream;
  rapidjson::Writer<TextStream> writer(stream);
  writer.Double(value);
  return std::move(stream.text);
}

}  // namespace espalier
