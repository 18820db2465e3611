#include "tools/top_tool.h"

#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "lib/base/async/readiness.h"
#include "lib/base/text.h"
#include "tools/output.h"
#include "tools/terminal.h"
#include "tools/top_source.h"

namespace pen::tools {
namespace {

constexpr const char* kProgram = "pentop";

struct SortWord {
  const char* word;
  TopState::Sort sort;
};
constexpr SortWord kSorts[] = {{"busiest", TopState::Sort::busiest},
                               {"slowest", TopState::Sort::slowest},
                               {"failures", TopState::Sort::failures},
                               {"next", TopState::Sort::next_try},
                               {"name", TopState::Sort::name}};

}  // namespace

std::expected<TopTool::Options, service::Ending> TopTool::read(int argc, const char* const* argv) {
  Options o;
  bool once = false, messages = false;
  service::CommandLine line{
      .program = kProgram,
      .usage = {"pentop [-c DIR] [-d SECONDS] [--sort WORD] [--filter TEXT]",
                "pentop [-c DIR] [-d SECONDS] [--sort WORD] [--filter TEXT] [-w COLUMNS] --once | --batch N"},
      .about =
          "Shows what a Penstock instance does, again and again: rates, the queue, destinations and why they wait. "
          "The key ? shows the keys.",
      .options = {{"-d SECONDS", "how often (2)", service::into(o.interval, 1, 3600)},
                  {"--sort WORD", "busiest, slowest, failures, next, name", service::into(o.sort)},
                  {"--filter TEXT", "only destinations or messages with this text", service::into(o.filter)},
                  {"--messages", "the oldest messages instead of destinations", service::set(messages)},
                  {"--once", "print one look as text; rates are of one interval", service::set(once)},
                  {"--batch N", "print N looks", service::into(o.batch, 1, 1'000'000)},
                  {"-w COLUMNS", "how wide that text is (no end)", service::into(o.width, 40, 1000)},
                  service::directory_option(o.directory)}};
  const auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  if (!words->empty()) return std::unexpected(line.misuse("unexpected \"" + printable(words->front()) + "\""));
  if (once && o.batch > 0) return std::unexpected(line.misuse("--once is --batch 1"));
  if (once) o.batch = 1;
  if (!o.sort.empty()) {
    const auto* row = std::ranges::find(kSorts, o.sort, &SortWord::word);
    if (row == std::end(kSorts)) return std::unexpected(line.misuse("no order: " + printable(o.sort)));
    o.state.sort = row->sort;
  }
  o.state.filter = o.filter;
  if (messages) o.state.screen = TopState::Screen::messages;
  return o;
}

TopTool::TopTool(Options options) : options_(std::move(options)) {}
TopTool::~TopTool() = default;

int TopTool::run() {
  config_ = std::make_unique<config::Config>(load_instance(kProgram, options_.directory));
  source_ = std::make_unique<TopSource>(loop_, *config_);
  if (options_.batch > 0) {
    loop_.spawn("print", print_times(this));
    loop_.run();
    return status_;
  }
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0)
    die(kProgram, EX_USAGE, "this is no terminal: --once and --batch print text");
  const char* no_colour = std::getenv("NO_COLOR");
  auto terminal = Terminal::open({.colour = no_colour == nullptr || *no_colour == '\0'});
  if (!terminal) die(kProgram, EX_OSERR, terminal.error().message());
  terminal_ = *std::move(terminal);
  const auto stop = [this](int) { loop_.stop(); };
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) (void)loop_.on_signal(signal, stop);
  (void)loop_.on_signal(SIGWINCH, [this](int) {
    terminal_->resized();
    show();
  });
  loop_.spawn("refresh", refresh(this));
  loop_.spawn("keys", read_keys(this));
  loop_.spawn("tell", tell(this));
  loop_.run();
  terminal_.reset();
  return status_;
}

async::Task<void> TopTool::print_times(TopTool* tool) {
  const int times = tool->options_.batch;
  tool->before_ = co_await tool->source_->look();
  co_await tool->source_->surveyed();
  const std::size_t width = tool->options_.width > 0 ? static_cast<std::size_t>(tool->options_.width) : 100'000;
  for (int i = 0; i < times; ++i) {
    (void)co_await tool->loop_.sleep(seconds(tool->options_.interval));
    tool->now_ = co_await tool->source_->look();
    std::string text = i > 0 ? "\n" : "";
    for (const TopLine& line : draw(tool->before_, tool->now_, tool->options_.state, {.width = width, .height = 0}))
      text += plain_text(line) + "\n";
    print(text);
    std::fflush(stdout);
    if (!tool->now_.problem.empty()) tool->status_ = EX_UNAVAILABLE;
    tool->before_ = std::move(tool->now_);
  }
  tool->loop_.stop();
}

void TopTool::show() { terminal_->show(draw(before_, now_, options_.state, terminal_->size())); }

async::Task<void> TopTool::refresh(TopTool* tool) {
  tool->now_ = tool->before_ = co_await tool->source_->look();
  for (;;) {
    tool->show();
    // At first the rates come soon, and what the look through the queue found.
    const bool young = tool->now_.survey.looked == WallTime{};
    (void)co_await tool->loop_.sleep(young ? seconds(1) : seconds(tool->options_.interval));
    TopSnapshot next = co_await tool->source_->look();
    tool->before_ = std::exchange(tool->now_, std::move(next));
  }
}

async::Task<void> TopTool::read_keys(TopTool* tool) {
  async::Readiness input(tool->loop_, STDIN_FILENO);
  for (;;) {
    if (!co_await input.readable()) break;
    bool any = false;
    while (const auto key = tool->terminal_->key()) {
      any = true;
      tool->options_.state.key(*key, tool->now_);
      if (tool->options_.state.quit) break;
    }
    // Readable without a key: the terminal is gone.
    if (tool->options_.state.quit || (!any && ::isatty(STDIN_FILENO) == 0)) break;
    if (tool->options_.state.wants_detail) tool->wanted_.set();
    tool->show();
  }
  tool->loop_.stop();
}

async::Task<void> TopTool::tell(TopTool* tool) {
  for (;;) {
    if (!co_await tool->wanted_.wait()) co_return;
    tool->wanted_.reset();
    TopState& state = tool->options_.state;
    if (!std::exchange(state.wants_detail, false)) continue;
    const std::string id = state.subject;
    std::string text = co_await tool->source_->tell(id);
    if (state.subject == id) state.detail = std::move(text);
    tool->show();
  }
}

}  // namespace pen::tools
