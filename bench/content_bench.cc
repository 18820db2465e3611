// Measures the processor time for a message's content alone: scanning its lines, coming in and going out, and looking
// them up in tables of patterns.
//   content_bench [--size MIB] [--rules N]     one line of JSON for each figure
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>

#include "bench/least_time.h"
#include "bench/sample_text.h"
#include "lib/mail/data_form.h"
#include "lib/mail/wire.h"
#include "lib/map/map.h"
#include "lib/testing/scratch.h"

using namespace pen;
using bench::lines_of_text;

namespace {

constexpr std::size_t kPiece = 64 * 1024;  // the size of a stream's read
constexpr int kRounds = 10;

/// In milliseconds.
template <class Work>
double least(Work work) {
  return bench::least_time(kRounds, 1, work).count() / 1000;
}

template <class Work>
void in_pieces(std::string_view text, Work work) {
  for (; !text.empty(); text.remove_prefix(std::min(kPiece, text.size()))) work(text.substr(0, kPiece));
}

/// Collects content line by line.
struct ByLine {
  std::string out;
  mail::FactsCollector facts;
  void text(std::string_view part) {
    out += part;
    facts.text(part);
  }
  void line_end() {
    out += "\r\n";
    facts.line_end();
  }
};
/// The same, with all plain lines in one piece.
struct ByPiece : ByLine {
  bool takes_lines() const { return true; }
  void lines(std::string_view text, const mail::PlainLines& run) {
    out += text;
    facts.lines(text, run);
  }
};

template <class Sink>
double coming_in(const std::string& text) {
  return least([&] {
    mail::DataScanner scanner;
    Sink sink;
    sink.out.reserve(8 * kPiece);
    in_pieces(text, [&](std::string_view piece) {
      scanner.feed(piece, sink);
      if (sink.out.size() >= 4 * kPiece) sink.out.clear();  // as if a spool had taken it
    });
  });
}

double going_out(const std::string& text) {
  return least([&] {
    mail::DataForm form(998);
    std::vector<Bytes> pieces;
    in_pieces(text, [&](std::string_view piece) {
      pieces.clear();
      form.feed(piece, pieces);
    });
  });
}

double found_by(mail::BlockCode code, const std::string& text) {
  mail::PlainLines found;
  if (!mail::plain_lines_by(code, {}, SIZE_MAX, found)) return 0;
  return least(
      [&] { in_pieces(text, [&](std::string_view piece) { mail::plain_lines_by(code, piece, SIZE_MAX, found); }); });
}

/// Scans a message of 4 KiB under this many rules, none of which matches.
double asked(const std::string& type, int rules) {
  testing::ScratchDir dir;
  std::string table;
  for (int i = 0; i < rules; ++i) table += "/\\bcheap (pills|watches) number" + std::to_string(i) + "\\b/ REJECT\n";
  const auto map = map::open(type + ":" + dir.write("rules", table));
  if (!map) return 0;
  const std::string text = lines_of_text(4096);
  return least([&] {
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\r', at);
      (void)(*map)->lookup(std::string_view(text).substr(at, end - at));
      at = end + 2;
    }
  });
}

void say(const char* what, double milliseconds) {
  if (milliseconds > 0) std::printf("{\"work\": \"%s\", \"cpu_ms\": %.3f}\n", what, milliseconds);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("what content costs by itself");
  std::size_t size = 10;
  int rules = 200;
  app.add_option("--size", size, "MiB of text");
  app.add_option("--rules", rules, "rules of each table");
  CLI11_PARSE(app, argc, argv)
  const std::string text = lines_of_text(size << 20);
  say("coming in, line by line", coming_in<ByLine>(text));
  say("coming in, plain lines in one piece", coming_in<ByPiece>(text));
  say("going out by DATA", going_out(text));
  say("plain lines, plain code", found_by(mail::BlockCode::plain, text));
  say("plain lines, SSE2", found_by(mail::BlockCode::sse2, text));
  say("plain lines, AVX2", found_by(mail::BlockCode::avx2, text));
  say("plain lines, AVX-512", found_by(mail::BlockCode::avx512, text));
  say("pcre rules, 4 KiB", asked("pcre", rules));
  say("regexp rules, 4 KiB", asked("regexp", rules));
  return 0;
}
