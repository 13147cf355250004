#include "espalier/base/json_text_writer.h"

#include "espalier/base/json_text.h"

namespace espalier {

void JsonTextWriter::key(std::string_view name) {
  value(name);
  text_ += ':';
  needs_comma_ = false;
}

void JsonTextWriter::value(std::string_view text) {
  separate();
  append_json_string(text_, text);
}

void JsonTextWriter::value(const std::vector<std::string>& texts) {
  begin_array();
  for (const std::string& text : texts) value(text);
  end_array();
}

void JsonTextWriter::raw(std::string_view json) {
  separate();
  text_ += json;
}

void JsonTextWriter::separate() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

void JsonTextWriter::open(char bracket) {
  separate();
  text_ += bracket;
  needs_comma_ = false;
}

void JsonTextWriter::close(char bracket) {
  text_ += bracket;
  needs_comma_ = true;
}

}  // namespace espalier
