#include "tools/log_tool.h"

#include <unistd.h>

#include <iostream>

#include "lib/base/text.h"
#include "lib/suite/service/setup.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

constexpr const char* kProgram = "penlog";

}  // namespace

std::optional<log::Level> LogTool::level_of(std::string_view name) {
  static constexpr struct {
    std::string_view name;
    log::Level level;
  } kLevels[] = {{"info", log::Level::info},   {"warn", log::Level::warning}, {"warning", log::Level::warning},
                 {"error", log::Level::error}, {"fatal", log::Level::fatal},  {"panic", log::Level::panic}};
  for (const auto& known : kLevels)
    if (name == known.name) return known.level;
  return std::nullopt;
}

std::expected<LogTool::Options, service::Ending> LogTool::read(int argc, const char* const* argv) {
  Options o;
  const auto priority = [&o](const service::Given& given) -> std::string {
    const auto level = level_of(given.value);
    if (!level) return "not a priority: " + readable(given.value);
    o.level = *level;
    return {};
  };
  const service::CommandLine line{
      .program = kProgram,
      .usage = {"penlog [-iv] [-c DIR] [-p PRIORITY] [-t TAG] [TEXT ...]"},
      .about = "Writes TEXT to the log of a Penstock instance; without TEXT, each line of standard input.",
      .options = {{"-p PRIORITY", "info (the default), warn, error, fatal or panic", priority},
                  {"-t TAG", "what a line begins with (default: syslog_name/penlog)", service::into(o.tag)},
                  {"-i", "accepted: the process id is always there", service::accepted()},
                  {"-v", "accepted", service::accepted()},
                  service::directory_option(o.directory)}};
  auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  o.words = *std::move(words);
  return o;
}

int LogTool::run() {
  config::Settings settings = load_instance(kProgram, options_.directory).settings();
  if (!options_.tag.empty()) settings.syslog_name = options_.tag;
  if (auto opened = service::open_log(settings, options_.tag.empty() ? kProgram : "", false); !opened)
    die(kProgram, EX_CANTCREAT, opened.error().message());
  if (!options_.words.empty()) {
    write(join(options_.words));
    return EX_OK;
  }
  for (std::string line; std::getline(std::cin, line);) write(line);
  if (std::cin.bad()) die(kProgram, EX_IOERR, "standard input cannot be read");
  return EX_OK;
}

void LogTool::write(const std::string& text) {
  log::write(options_.level, text);
  // A user at a terminal sees the line as well.
  if (::isatty(STDERR_FILENO) == 1) std::fprintf(stderr, "%s: %s\n", kProgram, readable(text).c_str());
}

}  // namespace pen::tools
