#include "lib/config/pages.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <vector>

#include "lib/config/config.h"
#include "lib/config/values.h"

namespace pen::config {
namespace {

constexpr std::array<std::string_view, 9> kTypeWords = {
    "text", "text, not expanded", "list", "yes or no", "number", "bytes", "time", "choice", ""};

std::string replaced(std::string_view in, const std::map<char, std::string_view>& by) {
  std::string out;
  for (const char c : in) {
    const auto found = by.find(c);
    if (found == by.end()) {
      out += c;
    } else {
      out += found->second;
    }
  }
  return out;
}
std::string markdown(std::string_view in) {
  return replaced(in, {{'|', "\\|"}, {'*', "\\*"}, {'_', "\\_"}, {'<', "&lt;"}});
}
std::string code(std::string_view in) {
  if (in.empty()) return "empty";
  return (in.find('`') == std::string_view::npos ? "`" : "`` ") + replaced(in, {{'|', "\\|"}}) +
         (in.find('`') == std::string_view::npos ? "`" : " ``");
}
/// Characters beyond ASCII by their numbers, which every roff reads. The texts are our own: valid UTF-8.
std::string roff_letters(std::string_view in) {
  std::string out;
  for (std::size_t i = 0; i < in.size();) {
    const auto first = static_cast<unsigned char>(in[i]);
    const std::size_t more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    if (more == 0 || i + more >= in.size()) {
      out += in[i++];
      continue;
    }
    unsigned letter = first & (0x3fU >> more);
    for (std::size_t k = 1; k <= more; ++k) letter = letter << 6 | (static_cast<unsigned char>(in[i + k]) & 0x3fU);
    out += fmt::format("\\[u{:04X}]", letter);
    i += more + 1;
  }
  return out;
}

std::string roff(std::string_view in) {
  std::string out = roff_letters(replaced(in, {{'\\', "\\e"}, {'-', "\\-"}}));
  if (out.starts_with('.') || out.starts_with('\'')) out.insert(0, "\\&");
  return out;
}

/// A default: where it is a long word, such as a list of ciphers, it may be broken behind a colon.
std::string roff_default(std::string_view in) {
  if (in.empty()) return "empty";
  std::string out = roff(in);
  return in.size() > 60 && in.find(' ') == in.npos ? replaced(out, {{':', ":\\:"}}) : out;
}

/// What the value names, where that says more than the type.
std::string_view named_words(const Row& row) {
  const bool one = row.type == Type::text;
  switch (row.names) {
    case Names::tables:
    case Names::key_tables:
      return one ? "table" : "tables";
    case Names::strings:
      return "list of patterns";
    case Names::domains:
      return "list of domains";
    case Names::hosts:
      return "list of hosts";
    case Names::networks:
      return "list of networks";
    case Names::restrictions:
      return "restrictions";
    case Names::filters:
      return "list of filters";
    case Names::servers:
      return one ? "server" : "servers";
    case Names::file:
    case Names::keys:
    case Names::certificates:
      return one ? "file" : "files";
    case Names::directory:
      return "directory";
    case Names::nothing:
    case Names::conditions:
    case Names::file_lists:
    case Names::written:
      return {};
  }
  return {};
}

std::string type_words(const Row& row) {
  if (const std::string_view named = named_words(row); !named.empty()) return std::string(named);
  std::string out(kTypeWords[static_cast<std::size_t>(row.type)]);
  if (row.type == Type::choice) out += ": " + std::string(row.words);
  if (row.type == Type::time) out += std::string(" (") + time_unit(row.default_text) + ")";
  return out;
}
/// The bounds of a setting; empty: it has none.
std::string bounds(const Row& row) {
  if (row.min == 0 && row.max == 0) return {};
  return std::to_string(row.min) + " to " + std::to_string(row.max) + (row.type == Type::time ? " s" : "");
}
std::string programs(const Row& row) { return row.programs == "all" ? "all programs" : std::string(row.programs); }

std::string successor(const Row& row) {
  return row.successor.empty() ? std::string("remove it") : std::string(row.successor);
}

/// The rows of a class, grouped by equal text, in order of first appearance.
std::vector<std::pair<std::string_view, std::vector<const Row*>>> grouped(Class kind) {
  std::vector<std::pair<std::string_view, std::vector<const Row*>>> groups;
  for (const Row& row : rows()) {
    if (row.kind != kind) continue;
    auto at = groups.begin();
    while (at != groups.end() && at->first != row.text) ++at;
    if (at == groups.end()) at = groups.insert(groups.end(), {row.text, {}});
    at->second.push_back(&row);
  }
  return groups;
}

}  // namespace

std::string settings_markdown() {
  std::string out =
      "# Settings\n\n"
      "Made from `lib/config/params.def` and `params_client.def`; do not edit. `penconf` shows the settings of an "
      "instance, `penstock check` "
      "says which of those set do not act.\n\n"
      "## Settings that act\n\n"
      "A time's default unit stands in brackets. *reload*: a change applies after `penstock "
      "reload`; *restart*: after "
      "stop and start.\n\n"
      "| name | type | default | bounds | read by | applies at | what it does |\n| --- | --- | --- "
      "| --- | --- | --- | --- |\n";
  for (const Row& row : rows()) {
    if (row.kind != Class::acts) continue;
    out += "| " + markdown(row.name) + " | " + type_words(row) + " | " + code(row.default_text) + " | " + bounds(row) +
           " | " + programs(row) + " | " + (row.applies == Applies::reload ? "reload" : "restart") + " | " +
           markdown(row.text) + " |\n";
  }
  out +=
      "\n## Settings by transport\n\nWith the name of a service of master.cf in place of "
      "*transport*:\n\n";
  for (const auto& s : transport_suffixes())
    if (s.acts)
      out += "- *transport*" + markdown(s.suffix) + ", where not set: " + code("$" + std::string(s.fallback)) + "\n";
  out += "\nAccepted without effect:";
  for (const auto& s : transport_suffixes())
    if (!s.acts) out += " *transport*" + markdown(s.suffix);
  out += ".\n";
  const auto section = [&](Class kind, std::string_view title, std::string_view about) {
    out += "\n## " + std::string(title) + "\n\n" + std::string(about) + "\n";
    for (const auto& [text, members] : grouped(kind)) {
      out += "\n" + markdown(text) + "\n\n>";
      for (const Row* row : members) out += " " + markdown(row->name);
      out += "\n";
    }
  };
  section(Class::accepted, "Settings accepted without effect",
          "Nothing is lost by that: what they are for is not needed here, or done otherwise.");
  section(Class::unsupported, "Settings not supported",
          "Postfix's settings for what Penstock does not do, or not yet. `penstock check` reports each that is set.");
  out += "\n## Old names\n\n| name | use | why |\n| --- | --- | --- |\n";
  for (const Row& row : rows())
    if (row.kind == Class::obsolete)
      out += "| " + markdown(row.name) + " | " + markdown(successor(row)) + " | " + markdown(row.text) + " |\n";
  return out;
}

namespace {

constexpr const char* kManPageBegins =
    ".\\\" Made from lib/config/params.def and params_client.def; do not edit.\n"
    ".TH MAIN.CF 5 \"\" \"Penstock\" \"File formats\"\n"
    ".ad l\n"  // long words would leave gaps in adjusted lines
    ".SH NAME\nmain.cf \\- the settings of a Penstock instance\n"
    ".SH DESCRIPTION\n"
    "The file holds one setting a line:\n.PP\n.RS\n.nf\nname = value\n.fi\n.RE\n.PP\n"
    "A line that begins with a blank continues the one before. Empty lines, and lines whose "
    "first character other "
    "than a blank is #, are skipped. Where a name is set twice the last value counts. Names that "
    "are no settings "
    "may be set, to be used in others.\n"
    ".SS Values from other settings\n"
    ".TP\n\\fB$name\\fR, \\fB${name}\\fR, \\fB$(name)\\fR\nThe value of the setting.\n"
    ".TP\n\\fB${name?text}\\fR, \\fB${name?{text}}\\fR\nThe text, if the setting is not empty.\n"
    ".TP\n\\fB${name:text}\\fR, \\fB${name:{text}}\\fR\nThe text, if the setting is empty or not "
    "set.\n"
    ".TP\n\\fB${name?{text1}:{text2}}\\fR\nOne or the other.\n"
    ".TP\n\\fB${{a} == {b} ? {text1} : {text2}}\\fR\nBy comparison: == != < <= > >=. Numbers if "
    "both sides are; "
    "with the word level after the operator compatibility levels; else text by its bytes.\n"
    ".TP\n\\fB$$\\fR\nOne dollar sign.\n"
    ".SS Kinds of values\n"
    "A list is separated by blanks and commas; { ... } makes one item of what has blanks in it. "
    "A time is a number "
    "with s, m, h, d or w (seconds to weeks; ms for milliseconds); a number of bytes may end in "
    "k, m or g.\n"
    ".SS Order\n"
    "The \\fB-o\\fR options of a service in master.cf come before main.cf, main.cf before the "
    "defaults.\n"
    ".SH SETTINGS\n";

std::string roff_entry(const Row& row) {
  std::string out = ".TP\n\\fB" + roff(row.name) + "\\fR (" + roff_default(row.default_text) + ")\n" + roff(row.text) +
                    "\n.br\n" + roff(type_words(row));
  if (const auto b = bounds(row); !b.empty()) out += ", " + b;
  return out + "; " + roff(programs(row)) + (row.applies == Applies::restart ? "; after stop and start" : "") + ".\n";
}

/// Settings that do not act, by what is said of them.
std::string roff_section(Class kind, std::string_view title) {
  std::string out = ".SH " + std::string(title) + "\n";
  bool first = true;
  for (const auto& [text, members] : grouped(kind)) {
    if (!first) out += ".PP\n";
    first = false;
    // Not justified: a line with one long name cannot be stretched.
    out += roff(text) + "\n.PP\n.RS\n.na\n";
    for (const Row* row : members) out += roff(row->name) + "\n";
    out += ".ad\n.RE\n";
  }
  return out;
}

}  // namespace

std::string main_cf_man_page() {
  std::string out = kManPageBegins;
  for (const Row& row : rows())
    if (row.kind == Class::acts) out += roff_entry(row);
  out +=
      ".SH SETTINGS BY TRANSPORT\nWith the name of a service of master.cf in place of "
      "\\fItransport\\fR:\n";
  for (const auto& s : transport_suffixes())
    if (s.acts)
      out += ".TP\n\\fItransport\\fB" + roff(s.suffix) + "\\fR ($" + roff(s.fallback) + ")\nAs " + roff(s.fallback) +
             ", for one transport.\n";
  out += roff_section(Class::accepted, "ACCEPTED WITHOUT EFFECT");
  out += roff_section(Class::unsupported, "NOT SUPPORTED");
  out += ".SH OLD NAMES\n";
  for (const Row& row : rows())
    if (row.kind == Class::obsolete)
      out += ".TP\n\\fB" + roff(row.name) + "\\fR: " + roff(successor(row)) + "\n" + roff(row.text) + "\n";
  out += ".SH SEE ALSO\npenconf(1), penstock(1), master.cf(5)\n";
  return out;
}

}  // namespace pen::config
