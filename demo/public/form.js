// Shows the photo that was chosen, and says before sending that it is too large. The form works without this.
"use strict";

const chosen = document.getElementById("photo");
const preview = document.getElementById("photo-preview");
const tooLarge = document.getElementById("photo-too-large");

chosen?.addEventListener("change", () => {
    const file = chosen.files[0];
    const limit = Number(chosen.dataset.limit);
    URL.revokeObjectURL(preview.src);
    const exceeds = file !== undefined && file.size > limit;
    tooLarge.hidden = !exceeds;
    if (exceeds) {
        tooLarge.textContent = `That photo has ${(file.size / 1048576).toFixed(1)} MB. Please choose a smaller one.`;
        chosen.value = "";
    }
    preview.hidden = file === undefined || exceeds;
    if (!preview.hidden) {
        preview.src = URL.createObjectURL(file);
    }
});
