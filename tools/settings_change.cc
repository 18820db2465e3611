#include "tools/settings_change.h"

#include <sysexits.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "lib/config/config.h"

namespace pen::tools {
namespace {

int complain(int status, const std::string& text) {
  std::fprintf(stderr, "penconf: %s\n", text.c_str());
  return status;
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

int change_main_cf(const std::string& directory, const std::vector<config::Edit>& edits) {
  const std::string path = directory + "/main.cf";
  std::ifstream in(path, std::ios::binary);
  if (!in) return complain(EX_CONFIG, "cannot read " + path);
  const std::string before{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) return complain(EX_IOERR, "cannot read " + path);
  const auto after = config::edit_main_cf(before, edits);
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
