#include "cli/usage/man_page.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "cli/terminal/exit_codes.h"
#include "espalier/version.h"

namespace espalier::cli {
namespace {

// Text that roff prints as it is. A minus sign stays one that can be pasted, and a line never
// begins with a request.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else if (c == '~') {
      result += "\\(ti";
    } else if (c == '^') {
      result += "\\(ha";
    } else if (c == '`') {
      result += "\\(ga";
    } else {
      result += c;
    }
  }
  return result.starts_with('.') ? "\\&" + result : result;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

// "espalier-ls"
std::string page_name(const CommandUsage& command) {
  std::string name = command.name;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

void append_entry(std::string& page, const std::string& term, std::string_view description) {
  page += ".TP\n" + term + "\n" + roff(description) + ".\n";
}

void append_options(std::string& page, const CommandUsage& command) {
  for (const OptionGroup& group : command.groups) {
    page += command.groups.size() > 1 ? ".SS " + group.title + "\n" : "";
    for (const OptionUsage& option : group.options) {
      std::string term;
      for (const std::string& name : option.names) term += (term.empty() ? "" : ", ") + bold(name);
      if (!option.value.name.empty()) term += " " + italic(option.value.name);
      append_entry(page, term, option.description);
    }
  }
}

struct Entry {
  const char* term;
  const char* description;
};

constexpr Entry kPatterns[] = {
    {"*", "any run of characters within a segment"},
    {"?", "one character"},
    {"**", "as a whole segment: any number of segments, also none"},
    {"{a,b}", "one of several alternatives"},
    {"[a-z], [!a-z]", "one of these characters, or of any others"},
    {"\\", "escapes the next character"},
};

constexpr Entry kVariables[] = {
    {"ESPALIER_TOKEN",
     "An access token for the server of a URL. It is sent over https alone, or to this machine, "
     "and "
     "never to another server that a redirect leads to"},
    {"HF_TOKEN", "The same for https://huggingface.co, if ESPALIER_TOKEN is not set"},
    {"ESPALIER_HTTP_TIMEOUT",
     "Seconds without bytes from a server after which a request has failed; 20 by default"},
    {"http_proxy, https_proxy, all_proxy, no_proxy", "The proxy for URLs"},
    {"SSL_CERT_FILE", "Certificates of authorities to trust, in place of the system's"},
    {"NO_COLOR", "If it is not empty, nothing is coloured"},
    {"ESPALIER_VIEWER", "The folder of the page that view shows"},
};

void append_variables(std::string& page) {
  page += ".SH ENVIRONMENT\n";
  for (const Entry& entry : kVariables) append_entry(page, bold(entry.term), entry.description);
}

void append_syntax(std::string& page) {
  page += ".SH KEY PATHS\n";
  page += roff(
      "A key path names one node of the tree by the keys that lead to it, separated by slashes: "
      "optimizer/0/exp_avg. The empty text is the root.");
  page += "\n.SH PATTERNS\n";
  page += roff(
      "A pattern selects nodes by key path. A pattern that matches a container selects everything "
      "in it. Quote patterns, or the shell may replace them.");
  page += "\n";
  for (const Entry& entry : kPatterns) append_entry(page, bold(entry.term), entry.description);
}

}  // namespace

std::string man_page(const CommandUsage& command, const CommandUsage& program) {
  const bool is_program = !command.commands.empty();
  // Without a date, so that equal sources make equal pages.
  std::string page = fmt::format(".TH {} 1 \"\" \"espalier {}\" \"Espalier Manual\"\n",
                                 roff(upper(page_name(command))), ESPALIER_VERSION);
  page += fmt::format(".SH NAME\n{} \\- {}\n", roff(page_name(command)), roff(command.summary));
  page += ".SH SYNOPSIS\n" + bold(command.name) +
          roff(command.synopsis().substr(command.name.size())) + "\n";
  if (is_program) {
    page += ".SH COMMANDS\n";
    for (const CommandUsage& each : command.commands) {
      append_entry(page, bold(page_name(each)) + "(1)", each.summary);
    }
  }
  if (!command.arguments.empty()) page += ".SH ARGUMENTS\n";
  for (const ArgumentUsage& argument : command.arguments) {
    append_entry(page, italic(argument.shown()), argument.description);
  }
  if (!command.groups.empty()) page += ".SH OPTIONS\n";
  append_options(page, command);
  if (is_program) append_syntax(page);
  if (is_program) append_variables(page);
  if (!command.examples.empty()) page += ".SH EXAMPLES\n.EX\n";
  for (const std::string& example : command.examples) page += roff(example) + "\n";
  if (!command.examples.empty()) page += ".EE\n";
  page += ".SH EXIT STATUS\n";
  for (const ExitCodeMeaning& entry : kExitCodeMeanings) {
    append_entry(page, bold(std::to_string(static_cast<int>(entry.code))), entry.meaning);
  }
  page += ".SH SEE ALSO\n";
  if (!is_program) page += bold(page_name(program)) + "(1)";
  for (const CommandUsage& each : program.commands) {
    if (each.name == command.name) continue;
    page += (page.ends_with('\n') ? "" : ",\n") + bold(page_name(each)) + "(1)";
  }
  return page + "\n";
}

}  // namespace espalier::cli
