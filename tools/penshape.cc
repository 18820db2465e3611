/// penshape: how many messages wait for each domain, and for how long. Manual: man/penshape.1.
#include <getopt.h>
#include <sysexits.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <vector>

#include "lib/base/text.h"
#include "tools/progress_bar.h"
#include "tools/queue_client.h"
#include "tools/queue_selection.h"
#include "tools/queue_shape.h"

namespace {

using namespace pen;
using namespace pen::tools;

constexpr const char* kProgram = "penshape";
constexpr const char* kHelp =
    "usage: penshape [-jlps] [-b COUNT] [-t MINUTES] [-m COUNT] [-n COUNT] [-N COUNT] [-w WIDTH]\n"
    "                [-c DIR] [CHOICE ...] [QUEUE ...]\n"
    "\n"
    "Counts the messages in the queue of a Penstock instance by domain of their recipients and by "
    "age.\n"
    "  -s          by domain of their senders\n"
    "  -t MINUTES  the first column is for messages younger than that (default: 5)\n"
    "  -b COUNT    so many columns, each twice as wide as the one before; the last is for all "
    "that is\n"
    "              older (default: 10)\n"
    "  -l          columns of equal width\n"
    "  -p          a line for each parent domain too: .example.com\n"
    "  -m COUNT    with -p: that has so many subdomains (default: 5)\n"
    "  -n COUNT    only so many domains, those with most messages\n"
    "  -N COUNT    on a terminal show what there is after each so many messages\n"
    "  -w WIDTH    lines of so many characters: longer names lose their beginning\n"
    "  -j          one JSON object a line\n"
    "  -c DIR      the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)\n"
    "Only messages that every CHOICE fits are counted:\n";
constexpr const char* kHelpEnd =
    "and that are in one of the QUEUEs: incoming, active, deferred, hold, maildrop\n"
    "(default: incoming and active).\n"
    "  --help, --version\n";
// The last column begins after 2^28 times kMaxMinutes: far from what minutes can count.
constexpr int kMaxColumns = 30;
constexpr int kMaxMinutes = 1'000'000;
constexpr int kMaxRows = 1'000'000'000, kMaxWidth = 10'000;

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
  int columns = 10, first = 5, subdomains = 5, rows = 0, batch = 0, width = 0;
  bool linear = false, json = false, by_sender = false, parents = false;
  for (int c;
       (c = ::getopt_long(argc, argv, "b:c:jlm:n:N:pst:w:", long_options.data(), nullptr)) != -1;) {
    if (selection.take(c, optarg)) continue;
    switch (c) {
      case 1:
        usage(stdout);
        return 0;
      case 2:
        std::printf("penshape (Penstock) %s\n", PEN_VERSION);
        return 0;
      case 'b':
        columns = number('b', optarg, 1, kMaxColumns);
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
      case 'm':
        subdomains = number('m', optarg, 1, kMaxRows);
        break;
      case 'n':
        rows = number('n', optarg, 1, kMaxRows);
        break;
      case 'N':
        batch = number('N', optarg, 1, kMaxRows);
        break;
      case 'p':
        parents = true;
        break;
      case 's':
        by_sender = true;
        break;
      case 't':
        first = number('t', optarg, 1, kMaxMinutes);
        break;
      case 'w':
        width = number('w', optarg, 80, kMaxWidth);
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
    for (const char* queue : {"incoming", "active"}) selection.take_queue(queue);
  const config::Config config = load_instance(kProgram, directory);
  QueueClient client(kProgram, config);
  ipc::queue::List wanted;
  wanted.request = 1;
  wanted.filter = selection.filter();
  wanted.brief = true;
  Shape shape({.ages = shape_ages(minutes(first), static_cast<std::size_t>(columns - 1), linear),
               .by_sender = by_sender,
               .parents = parents ? static_cast<std::size_t>(subdomains) : 0,
               .rows = static_cast<std::size_t>(rows),
               .width = static_cast<std::size_t>(width)},
              system_clock().wall_now());
  const bool on_the_way = batch != 0 && !json && ::isatty(STDOUT_FILENO) != 0;
  constexpr const char* kClear = "\033[H\033[2J";
  std::uint64_t seen = 0;
  ProgressBar bar("Counting");
  const auto done = client.ask(wanted, [&](ipc::queue::FromQmgr& m, std::vector<async::Fd>&) {
    if (const auto* p = std::get_if<ipc::queue::Progress>(&m); p != nullptr && !on_the_way)
      bar.show(p->done, p->total, p->count);
    if (const auto* e = std::get_if<ipc::queue::Entry>(&m)) {
      shape.add(*e);
      if (on_the_way && ++seen % static_cast<std::uint64_t>(batch) == 0) {
        print(kClear + shape.table());
        std::fflush(stdout);
      }
    }
  });
  bar.clear();
  expect_ok(kProgram, done);
  if (on_the_way) print(kClear);
  print(json ? shape.json() : shape.table());
  return std::fflush(stdout) == 0 ? 0 : EX_IOERR;
}
