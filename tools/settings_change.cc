#include "tools/settings_change.h"

#include <sysexits.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "lib/base/text.h"
#include "lib/config/config.h"

namespace pen::tools {
namespace {

int complain(int status, const std::string& text) {
  std::fprintf(stderr, "penconf: %s\n", text.c_str());
  return status;
}

/// The content of a file; else the exit status.
std::expected<std::string, int> text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::unexpected(EX_CONFIG);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) return std::unexpected(EX_IOERR);
  return text;
}

}  // namespace

const char* option_of(SettingsChange change) {
  switch (change) {
    case SettingsChange::none:
      break;
    case SettingsChange::set:
      return "-e";
    case SettingsChange::comment_out:
      return "-#";
    case SettingsChange::remove:
      return "-X";
  }
  return "";
}

std::expected<std::vector<config::Edit>, std::string> edits_of(SettingsChange change,
                                                               const std::vector<std::string>& words) {
  if (words.empty()) return std::unexpected(std::string(option_of(change)) + " needs settings");
  std::vector<config::Edit> all;
  for (const std::string& argument : words) {
    config::Edit edit;
    if (change == SettingsChange::set) {
      config::Assignment assignment;
      if (const auto error = config::parse_assignment(argument, assignment); !error.empty())
        return std::unexpected(error);
      edit.name = assignment.name;
      edit.value = assignment.value;
    } else {
      if (argument.find('=') != std::string::npos)
        return std::unexpected(std::string(option_of(change)) + " takes names, not \"" + argument + "\"");
      edit.kind = change == SettingsChange::remove ? config::Edit::Kind::remove : config::Edit::Kind::comment_out;
      edit.name = argument;
    }
    all.push_back(std::move(edit));
  }
  return all;
}

std::expected<std::vector<config::ServiceEdit>, std::string> service_edits_of(SettingsChange change,
                                                                              config::ServiceEdit::Of of,
                                                                              const std::vector<std::string>& words) {
  using Of = config::ServiceEdit::Of;
  if (of == Of::column && change != SettingsChange::set)
    return std::unexpected(std::string("-F does not go together with ") + option_of(change));
  if (of == Of::setting && change == SettingsChange::comment_out)
    return std::unexpected(std::string("-P does not go together with -#"));
  if (words.empty()) return std::unexpected(std::string(option_of(change)) + " needs services");
  const char* form = of == Of::service  ? "SERVICE/TYPE"
                     : of == Of::column ? "SERVICE/TYPE/COLUMN"
                                        : "SERVICE/TYPE/NAME";
  std::vector<config::ServiceEdit> all;
  for (const std::string& word : words) {
    config::ServiceEdit edit;
    edit.of = of;
    if (change != SettingsChange::set)
      edit.kind = change == SettingsChange::remove ? config::Edit::Kind::remove : config::Edit::Kind::comment_out;
    const std::size_t equals = word.find('=');
    const bool assigns = equals != std::string::npos;
    if (assigns != (change == SettingsChange::set))
      return std::unexpected(std::string(option_of(change)) + " takes " + form + (assigns ? "" : "=VALUE") +
                             ", not \"" + printable(word) + "\"");
    const std::string where(trim(std::string_view(word).substr(0, equals)));
    const std::size_t first = where.find('/');
    const std::size_t second = first == std::string::npos ? first : where.find('/', first + 1);
    const bool whole = first != std::string::npos && (second == std::string::npos) == (of == Of::service);
    if (whole) {
      edit.name = where.substr(0, first);
      edit.type = where.substr(first + 1, second == std::string::npos ? second : second - first - 1);
      if (second != std::string::npos) edit.part = where.substr(second + 1);
    }
    if (!whole || edit.name.empty() || edit.type.empty() || (of != Of::service && edit.part.empty()))
      return std::unexpected("\"" + printable(where) + "\" is not in the form " + form);
    if (assigns) edit.value = trim(std::string_view(word).substr(equals + 1));
    if (assigns && of == Of::service && (edit.name == "*" || edit.type == "*"))
      return std::unexpected("\"" + printable(where) + "\" is no single service");
    all.push_back(std::move(edit));
  }
  return all;
}

int change_master_cf(const std::string& directory, const std::vector<config::ServiceEdit>& edits) {
  const std::string path = directory + "/master.cf";
  const auto before = text_of(path);
  if (!before) return complain(before.error(), "cannot read " + path);
  const auto after = config::edit_master_cf(*before, edits);
  if (!after) return complain(EX_DATAERR, after.error().message() + ": master.cf is unchanged");
  for (const config::ServiceEdit* edit : after->unmatched)
    std::fprintf(stderr, "penconf: warning: %s/%s: no such service\n", printable(edit->name).c_str(),
                 printable(edit->type).c_str());
  if (after->text == *before) return EX_OK;
  if (const auto written = config::replace_file(path, after->text); !written)
    return complain(EX_IOERR, written.error().message());
  return EX_OK;
}

int change_main_cf(const std::string& directory, const std::vector<config::Edit>& edits) {
  const std::string path = directory + "/main.cf";
  const auto before = text_of(path);
  if (!before) return complain(before.error(), "cannot read " + path);
  const auto after = config::edit_main_cf(*before, edits);
  if (!after) return complain(EX_DATAERR, after.error().message());
  // Refuse a value here with which no program could start.
  const config::Config checked = config::Config::parse({directory, *after, "", {}}, config::system_surroundings());
  bool refused = false;
  for (const config::Problem& p : checked.problems()) {
    const bool ours = std::ranges::any_of(edits, [&](const config::Edit& e) { return e.name == p.name; });
    if (p.severity != config::Severity::error || !ours) continue;
    std::fprintf(stderr, "penconf: %s: %s\n", p.name.c_str(), p.text.c_str());
    refused = true;
  }
  if (refused) return complain(EX_DATAERR, "main.cf is unchanged");
  if (const auto written = config::replace_file(path, *after); !written)
    return complain(EX_IOERR, written.error().message());
  return EX_OK;
}

}  // namespace pen::tools
