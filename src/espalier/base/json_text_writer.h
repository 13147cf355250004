// Writes a short JSON document: the commas, and one place for each kind of value.
//
//   JsonTextWriter json;
//   json.begin_object();
//   json.member("name", name);
//   json.member("ranks", ranks);
//   json.end_object();
#ifndef ESPALIER_BASE_JSON_TEXT_WRITER_H_
#define ESPALIER_BASE_JSON_TEXT_WRITER_H_

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace espalier {

/// Writes JSON without spaces. Close everything that you open, and write a key before each value of
/// an object. Texts must be UTF-8.
class JsonTextWriter {
 public:
  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(std::string_view name);

  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(const std::string& text) { value(std::string_view(text)); }
  void value(bool boolean) { raw(boolean ? "true" : "false"); }
  template <std::integral T>
  void value(T integer) {
    raw(std::to_string(integer));
  }
  void value(const std::vector<std::string>& texts);
  /// A value that is JSON already, such as a number by print_real().
  void raw(std::string_view json);

  template <class T>
  void member(std::string_view name, const T& content) {
    key(name);
    value(content);
  }

  std::string take() && { return std::move(text_); }

 private:
  void separate();
  void open(char bracket);
  void close(char bracket);

  std::string text_;
  // Without line breaks, the only state is whether a comma must come before the next value.
  bool needs_comma_ = false;
};

}  // namespace espalier

#endif  // ESPALIER_BASE_JSON_TEXT_WRITER_H_
