#include "espalier/base/real_text.h"

#include <locale.h>
#include <stdlib.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

namespace espalier {

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
  rapidjson::StringBuffer text;
  rapidjson::Writer<rapidjson::StringBuffer> writer(text);
  writer.Double(value);
  return text.GetString();
}

}  // namespace espalier
