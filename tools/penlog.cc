/// penlog: writes lines to the log of an instance, for scripts. Manual: man/penlog.1.
#include <getopt.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/service/setup.h"
#include "tools/queue_client.h"

namespace {

using namespace pen;
using tools::die;

constexpr const char* kProgram = "penlog";
constexpr const char* kHelp =
    "usage: penlog [-iv] [-c DIR] [-p PRIORITY] [-t TAG] [TEXT ...]\n"
    "\n"
    "Writes TEXT to the log of a Penstock instance; without TEXT, each line of standard input.\n"
    "  -p PRIORITY  info (the default), warn, error, fatal or panic\n"
    "  -t TAG       what a line begins with (default: syslog_name/penlog)\n"
    "  -i           accepted: the process id is always there\n"
    "  -v           accepted\n"
    "  -c DIR       the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)\n"
    "  --help, --version\n";

std::optional<log::Level> level_of(const std::string& name) {
  static constexpr struct {
    const char* name;
    log::Level level;
  } kLevels[] = {{"info", log::Level::info},       {"warn", log::Level::warning},
                 {"warning", log::Level::warning}, {"error", log::Level::error},
                 {"fatal", log::Level::fatal},     {"panic", log::Level::panic}};
  for (const auto& known : kLevels)
    if (name == known.name) return known.level;
  return std::nullopt;
}

void say(log::Level level, const std::string& text) {
  log::write(level, text);
  // Whoever calls it by hand sees what was said.
  if (::isatty(STDERR_FILENO) == 1)
    std::fprintf(stderr, "%s: %s\n", kProgram, printable(text).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  static const option kOptions[] = {{"help", no_argument, nullptr, 1},
                                    {"version", no_argument, nullptr, 2},
                                    {nullptr, 0, nullptr, 0}};
  std::string directory, tag;
  log::Level level = log::Level::info;
  for (int c; (c = ::getopt_long(argc, argv, "c:ip:t:v", kOptions, nullptr)) != -1;) {
    switch (c) {
      case 1:
        std::fputs(kHelp, stdout);
        return 0;
      case 2:
        std::printf("penlog (Penstock) %s\n", PEN_VERSION);
        return 0;
      case 'c':
        directory = optarg;
        break;
      case 'i':
      case 'v':
        break;
      case 'p':
        if (!level_of(optarg)) die(kProgram, EX_USAGE, "not a priority: " + printable(optarg));
        level = *level_of(optarg);
        break;
      case 't':
        tag = optarg;
        break;
      default:
        std::fputs(kHelp, stderr);
        return EX_USAGE;
    }
  }
  const config::Config config = tools::load_instance(kProgram, directory);
  config::Settings settings = config.settings();
  if (!tag.empty()) settings.syslog_name = tag;
  if (auto opened = service::open_log(settings, tag.empty() ? kProgram : "", false); !opened)
    die(kProgram, EX_CANTCREAT, opened.error().message());
  if (optind == argc) {
    for (std::string line; std::getline(std::cin, line);) say(level, line);
    if (std::cin.bad()) die(kProgram, EX_IOERR, "standard input cannot be read");
    return 0;
  }
  std::string text;
  for (int i = optind; i < argc; ++i) text += (i > optind ? " " : "") + std::string(argv[i]);
  say(level, text);
  return 0;
}
