#pragma once
/// The command line of a tool: one table of options. getopt_long() reads by it, and --help is made from it.
///
/// Use:     std::string tag;
///          bool quiet = false;
///          const CommandLine line{.program = "penlog",
///                                 .usage = {"penlog [-q] [-t TAG] [TEXT ...]"},
///                                 .about = "Writes TEXT to the log.",
///                                 .options = {{"-t TAG", "what a line begins with", into(tag)},
///                                             {"-q, --quiet", "print nothing", set(quiet)}}};
///          const auto words = line.read(argc, argv);  // what is no option
///          if (!words) return words.error().print();
/// Rules:   options act in the order in which they are given. --help and --version are in every table by themselves.
/// Thread:  one at a time: getopt_long() keeps its place in globals.
/// Why not CLI11: it lets options act in the order of its table (pensuper's orders go by the command line), and the
/// optional value of a short option (sendmail -q[TIME]) would take the next word.
#include <sysexits.h>

#include <cstdio>
#include <expected>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pen::service {

/// The status of a command that is called by `name`, for a code of sysexits.h. By their own names commands end with
/// that code. Postfix's commands have one status for whatever fails, and scripts that call ours by those names may look
/// for it. Other statuses stay: they say what was found. sendmail, mailq and newaliases have codes by either name:
/// 75, with which Postfix's end always, makes callers try for ever what cannot succeed, or takes it for success.
int status_as(std::string_view name, int status);
/// The same, for the name of this process.
int own_status(int status);

/// How a command ends that does not run: with a text and a code of sysexits.h.
struct Ending {
  int status = 0;
  std::string text;
  /// Prints the text, to standard output when status is 0, else to standard error. Returns own_status().
  int print() const;
};

/// An option as it was given.
struct Given {
  std::string name;   // "-t", "--older"
  std::string value;  // empty: it has none
};

struct Option {
  /// The option as --help shows it: "-n, --dry-run", "-t TAG" (a value), "-q[TIME]" (a value in the same word, or
  /// none). Empty: `text` is a heading for the options below it.
  std::string names;
  std::string text;
  /// Returns what is wrong with the option; empty: nothing. Without this function the row is for --help alone.
  std::function<std::string(const Given&)> take = nullptr;
};

struct CommandLine {
  std::string program;
  std::vector<std::string> usage;  // a line for each form, with the name of the program
  std::string about;               // before the options
  std::vector<Option> options;
  bool options_end_at_a_word = false;  // else options and words may be mixed
  std::string help_names = "--help";

  /// Returns the words that are no options. Errors: the end of a command line that does not run: --help, --version, an
  /// unknown option, a wrong value.
  std::expected<std::vector<std::string>, Ending> read(int argc, const char* const* argv) const;
  std::string help() const;
  /// A command line that cannot be meant (EX_USAGE): what is wrong with it.
  Ending misuse(const std::string& what) const;
  /// The same, for a command line that says nothing: the help text.
  Ending incomplete() const;
};

// What options do.

std::function<std::string(const Given&)> set(bool& flag, bool value = true);
std::function<std::string(const Given&)> into(std::string& text);
/// A whole number from least to most.
std::function<std::string(const Given&)> into(int& number, int least, int most);
/// For an option of another system that changes nothing here.
std::function<std::string(const Given&)> accepted();
/// For an option of another system that cannot be served; why.
std::function<std::string(const Given&)> refused(std::string why);
/// For options of which only one may be given. T() is no choice; among: all their names, for the complaint.
template <class T>
std::function<std::string(const Given&)> choose(T& slot, T value, std::string among) {
  return [&slot, value, among = std::move(among)](const Given&) -> std::string {
    if (slot != T() && slot != value) return "only one of " + among;
    slot = value;
    return {};
  };
}
/// -c DIR, which every tool has.
Option directory_option(std::string& directory);

/// The main of a command: a class with Options, a static read(argc, argv) that makes them or an Ending, and run(),
/// which returns the exit status, a code of sysexits.h where something failed. What is on standard output is out when
/// that is 0.
template <class Tool>
int run_tool(int argc, char** argv) {
  auto options = Tool::read(argc, argv);
  if (!options) return options.error().print();
  const int status = Tool(*std::move(options)).run();
  return own_status(std::fflush(stdout) == 0 ? status : EX_IOERR);
}

}  // namespace pen::service
