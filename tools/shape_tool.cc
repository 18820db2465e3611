#include "tools/shape_tool.h"

#include <unistd.h>

#include "lib/base/text.h"
#include "tools/progress_bar.h"
#include "tools/queue_client.h"
#include "tools/queue_selection.h"

namespace pen::tools {
namespace {

constexpr const char* kProgram = "penshape";
// The last column begins after 2^28 times kMaxMinutes: far from what minutes can count.
constexpr int kMaxColumns = 30;
constexpr int kMaxMinutes = 1'000'000;
constexpr int kMaxRows = 1'000'000'000, kMaxWidth = 10'000;
constexpr const char* kClear = "\033[H\033[2J";

}  // namespace

std::expected<ShapeTool::Options, service::Ending> ShapeTool::read(int argc, const char* const* argv) {
  using service::into;
  using service::set;
  Options o;
  Selection selection;
  int columns = 10, first = 5, subdomains = 5, rows = 0, batch = 0, width = 0;
  bool linear = false, parents = false;
  service::CommandLine line{
      .program = kProgram,
      .usage = {"penshape [-jlps] [-b COUNT] [-t MINUTES] [-m COUNT] [-n COUNT] [-N COUNT] "
                "[-w WIDTH] [-c DIR] [CHOICE ...] [QUEUE ...]"},
      .about = "Counts the messages in the queue of a Penstock instance by domain of their recipients and by age.",
      .options = {
          {"-s", "by domain of their senders", set(o.shape.by_sender)},
          {"-t MINUTES", "the first column is for messages younger than that (default: 5)",
           into(first, 1, kMaxMinutes)},
          {"-b COUNT",
           "so many columns, each twice as wide as the one before; the last is for all that is older (default: 10)",
           into(columns, 1, kMaxColumns)},
          {"-l", "columns of equal width", set(linear)},
          {"-p", "a line for each parent domain too: .example.com", set(parents)},
          {"-m COUNT", "with -p: that has so many subdomains (default: 5)", into(subdomains, 1, kMaxRows)},
          {"-n COUNT", "only so many domains, those with most messages", into(rows, 1, kMaxRows)},
          {"-N COUNT", "on a terminal show what there is after each so many messages", into(batch, 1, kMaxRows)},
          {"-w WIDTH", "lines of so many characters: longer names lose their beginning", into(width, 80, kMaxWidth)},
          {"-j", "one JSON object a line", set(o.json)},
          service::directory_option(o.directory),
          {"", "Only messages that every CHOICE fits are counted:"}}};
  for (auto& row : selection.rows()) line.options.push_back(std::move(row));
  line.options.push_back({"",
                          "and that are in one of the QUEUEs: incoming, active, deferred, hold, maildrop "
                          "(default: incoming and active)."});
  const auto queues = line.read(argc, argv);
  if (!queues) return std::unexpected(queues.error());
  for (const std::string& queue : *queues)
    if (!selection.take_queue(queue)) return std::unexpected(line.misuse("not a queue: " + readable(queue)));
  if (queues->empty())
    for (const char* queue : {"incoming", "active"}) selection.take_queue(queue);
  o.filter = selection.filter();
  o.batch = static_cast<std::uint64_t>(batch);
  o.shape.ages = shape_ages(minutes(first), static_cast<std::size_t>(columns - 1), linear);
  o.shape.parents = parents ? static_cast<std::size_t>(subdomains) : 0;
  o.shape.rows = static_cast<std::size_t>(rows);
  o.shape.width = static_cast<std::size_t>(width);
  return o;
}

int ShapeTool::run() {
  const config::Config config = load_instance(kProgram, options_.directory);
  QueueClient client(kProgram, config);
  ipc::queue::List wanted;
  wanted.request = 1;
  wanted.filter = options_.filter;
  wanted.brief = true;
  Shape shape(options_.shape, system_clock().wall_now());
  const bool on_the_way = options_.batch != 0 && !options_.json && ::isatty(STDOUT_FILENO) != 0;
  std::uint64_t seen = 0;
  ProgressBar bar("Counting");
  const auto done = client.ask(wanted, [&](ipc::queue::FromQmgr& m, auto&) {
    if (const auto* p = std::get_if<ipc::queue::Progress>(&m); p != nullptr && !on_the_way)
      bar.show(p->done, p->total, p->count);
    const auto* e = std::get_if<ipc::queue::Entry>(&m);
    if (e == nullptr) return;
    shape.add(*e);
    if (!on_the_way || ++seen % options_.batch != 0) return;
    print(kClear + shape.table());
    std::fflush(stdout);
  });
  bar.clear();
  expect_ok(kProgram, done);
  if (on_the_way) print(kClear);
  print(options_.json ? shape.json() : shape.table());
  return EX_OK;
}

}  // namespace pen::tools
