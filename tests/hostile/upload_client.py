"""A client that uploads values until it is killed.

Its child keeps the socket open afterwards, until its standard input ends. What it does is written
to standard output, a line for each step; "stored" stands before the key of a value that is there.
"""

import mmap

from session import ask, close_memory, connect_with_child, numbers, step, wait_for_ever

VALUE_BYTES = 40_000
HALF = VALUE_BYTES // 2


def main() -> None:
    control = connect_with_child()
    reply, descriptors = ask(control, "SHM UPLOAD 1")
    base, size = numbers(reply)[:2]
    step("offered")
    memory = mmap.mmap(descriptors[0], size)
    close_memory(descriptors[0])
    step("mapped")
    while ask(control, f"SHM OPEN {base}")[0] != b":1\r\n":
        pass
    step("opened")
    for count in range(25):
        mode = "ADOPT" if count % 3 else "COPIED"
        at = numbers(ask(control, f"SHM ALLOC {VALUE_BYTES}")[0])[0] - base
        step("allocated")
        value = bytes([65 + count]) * VALUE_BYTES
        memory[at : at + HALF] = value[:HALF]
        step("writing")
        ask(control, f"SHM COPY {base + at} {VALUE_BYTES} 0 {HALF} key:{count}")
        step("copying")
        memory[at : at + VALUE_BYTES] = value
        step("written")
        ask(control, f"SHM COMMIT {base + at} {VALUE_BYTES} {mode} key:{count}")
        step(f"stored key:{count}")
    wait_for_ever()


main()
