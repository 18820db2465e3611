/// penshape: how many messages wait for each domain, and for how long. Manual: man/penshape.1.
#include <getopt.h>
#include <sysexits.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <vector>

#include "lib/base/text.h"
#include "tools/queue_client.h"
#include "tools/queue_selection.h"
#include "tools/queue_shape.h"

namespace {

using namespace pen;
using namespace pen::tools;

constexpr const char* kProgram = "penshape";
constexpr const char* kHelp =
    "usage: penshape [-jls] [-b COUNT] [-t MINUTES] [-c DIR] [CHOICE ...] [QUEUE ...]\n"
    "\n"
    "Counts the messages in the queue of a Penstock instance by domain of their recipients and by "
    "age.\n"
    "  -s          by domain of their senders\n"
    "  -t MINUTES  the first column is for messages younger than that (default: 5)\n"
    "  -b COUNT    so many columns, each twice as wide as the one before, and one for what is "
    "older\n"
    "              (default: 10)\n"
    "  -l          columns of equal width\n"
    "  -j          one JSON object a line\n"
    "  -c DIR      the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)\n"
    "Only messages that every CHOICE fits are counted:\n";
constexpr const char* kHelpEnd =
    "and that are in one of the QUEUEs: incoming, active, deferred, hold (default: all but hold).\n"
    "  --help, --version\n";
constexpr int kMaxColumns = 30;
constexpr int kMaxMinutes = 1'000'000;

void usage(std::FILE* to) { std::fprintf(to, "%s%s%s", kHelp, Selection::help(), kHelpEnd); }

int number(char option, const char* text, int least, int most) {
  int value = 0;
  const std::string_view digits = text;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < least || value > most)
    die(kProgram, EX_USAGE,
        std::string("-") + option + ": a number from " + std::to_string(least) + " to " +
            std::to_string(most) + " is wanted, not " + printable(text));
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  keep_group_for_the_socket(kProgram);
  std::vector<option> long_options(Selection::options().begin(), Selection::options().end());
  long_options.push_back({"help", no_argument, nullptr, 1});
  long_options.push_back({"version", no_argument, nullptr, 2});
  long_options.push_back({nullptr, 0, nullptr, 0});
  Selection selection(kProgram);
  std::string directory;
  int columns = 10, first = 5;
  bool linear = false, json = false, by_sender = false;
  for (int c; (c = ::getopt_long(argc, argv, "b:c:jlst:", long_options.data(), nullptr)) != -1;) {
    if (selection.take(c, optarg)) continue;
    switch (c) {
      case 1:
        usage(stdout);
        return 0;
      case 2:
        std::printf("penshape (Penstock) %s\n", PEN_VERSION);
        return 0;
      case 'b':
        columns = number('b', optarg, 0, kMaxColumns);
        break;
      case 'c':
        directory = optarg;
        break;
      case 'j':
        json = true;
        break;
      case 'l':
        linear = true;
        break;
      case 's':
        by_sender = true;
        break;
      case 't':
        first = number('t', optarg, 1, kMaxMinutes);
        break;
      default:
        usage(stderr);
        return EX_USAGE;
    }
  }
  for (int i = optind; i < argc; ++i)
    if (!selection.take_queue(argv[i]))
      die(kProgram, EX_USAGE, "not a queue: " + printable(argv[i]));
  if (optind == argc)
    for (const char* queue : {"incoming", "active", "deferred"}) selection.take_queue(queue);
  const config::Config config = load_instance(kProgram, directory);
  QueueClient client(kProgram, config);
  ipc::queue::List wanted;
  wanted.request = 1;
  wanted.filter = selection.filter();
  wanted.brief = true;
  Shape shape({.ages = shape_ages(minutes(first), static_cast<std::size_t>(columns), linear),
               .by_sender = by_sender},
              system_clock().wall_now());
  expect_ok(kProgram, client.ask(wanted, [&](ipc::queue::FromQmgr& m, std::vector<async::Fd>&) {
    if (const auto* e = std::get_if<ipc::queue::Entry>(&m)) shape.add(*e);
  }));
  print(json ? shape.json() : shape.table());
  return std::fflush(stdout) == 0 ? 0 : EX_IOERR;
}
