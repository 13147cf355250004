"""Makes the corpus of the target map: the maps of the library, each with the tensors of its case, read from both sides.

Usage: python3 fuzz/make_map_seeds.py
"""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE.parent / "tests/maps/cases"


def leaves(folder, files):
    for label, name in files:
        content = (folder / name).read_bytes()
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        for tensor, entry in header.items():
            if tensor != "__metadata__":
                shape = ",".join(map(str, entry["shape"]))
                yield f"{entry['dtype'].lower()} {shape} {label}{tensor}\n"


def numbers(case):
    """What a program passes beside the map."""
    for word, number in {**(case.get("config") or {}), **(case.get("back") or {}), **(case.get("set") or {})}.items():
        if isinstance(number, (int, float)):
            yield f"= {word} {number}\n"


def main():
    target = HERE / "corpus/map"
    target.mkdir(exist_ok=True)
    for folder in sorted(CASES.iterdir()):
        case = json.loads((folder / "case.json").read_text())
        text = (HERE.parent / f"maps/{case['map']}.json").read_text()
        sides = {
            "left": [(f"{each['label']}::" if each["label"] else "", each["file"]) for each in case["left"]],
            "right": [("", case["right"])],
        }
        for side, files in sides.items():
            (target / f"{folder.name}-{side}").write_text("".join([*numbers(case), *leaves(folder, files)]) + "\n" + text)
    adapter = HERE.parent / "tests/maps/cases/peft-torchtune"
    case = {**json.loads((adapter / "case.json").read_text()), "set": {"lora_alpha": 6}}
    for name in ("llama-torchtune", "phi3-torchtune"):
        text = (HERE.parent / f"maps/{name}.json").read_text()
        for side in ("left", "right"):
            seed = "".join([*numbers(case), *leaves(adapter, [("", f"{side}.safetensors")])]) + "\n" + text
            (target / f"{name}-adapter-{side}").write_text(seed)


main()
